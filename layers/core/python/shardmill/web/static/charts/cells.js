// A grid of cells on a canvas, one for each task; smooth with 10,000 of them.

import { h } from "../core/vdom.js";
import { duration } from "../core/format.js";
import { theme, token } from "../core/theme.js";

const FADED = 0.14;
/** The sizes of cells, each with the maximum number of tasks. Cells of the first size show their index. */
const SIZES = [[150, 34], [400, 18], [3000, 12], [Infinity, 9]];
const MARKED = new Set(["FAILED", "RUNNING", "KILLED", "SUSPENDED"]);
const NUMBERED = SIZES[0][1];

/** The cursor of a grid. Keep it with the view. */
export const cellState = () => ({ at: -1, el: null, tip: null, drawn: "" });

const describe = (task) => `Task ${task.index}: ${task.state}${task.attempt ? `, attempt ${task.attempt}` : ""}${task.ms ? `, ${duration(task.ms)}` : ""}${task.worker ? `, on ${task.worker}` : ""}`;

/** Draw tasks. `shown(task)` says which are not faded; `open(task)` is called for a click or Enter. */
export function cells(state, tasks, { source, shown, filterKey, open, redraw, label }) {
  const size = SIZES.find(([most]) => tasks.length <= most)[1];
  const paint = () => draw(state, tasks, size, shown, `${filterKey}|${theme()}|${state.el?.parentElement?.clientWidth}`, source);
  const at = (event) => {
    const columns = columnsOf(state.el, size);
    const index = Math.floor(event.offsetY / size) * columns + Math.floor(event.offsetX / size);
    return event.offsetX < columns * size && index < tasks.length ? index : -1;
  };
  const point = (index) => {
    if (index === state.at) return;
    state.at = index;
    redraw();
  };
  const keydown = (event) => {
    const columns = columnsOf(state.el, size);
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[event.key];
    if (event.key === "Enter" && tasks[state.at]) open(tasks[state.at]);
    if (!step) return;
    event.preventDefault();
    point(Math.max(0, Math.min(tasks.length - 1, state.at + step)));
  };
  return h(
    "div",
    { class: "cells" },
    h("canvas", {
      tabindex: "0", role: "img", "aria-label": `${label}. Use the arrow keys to read tasks and Enter to open one.`, "aria-describedby": "cell-here",
      onmousemove: (event) => point(at(event)), onmouseleave: () => point(-1), onclick: (event) => tasks[at(event)] && open(tasks[at(event)]), onkeydown: keydown,
      mount: (el) => {
        state.el = el;
        state.drawn = "";
        new ResizeObserver(() => {
          state.drawn = "";
          redraw();
        }).observe(el.parentElement);
        paint();
      },
      update: paint,
    }),
    tasks[state.at] && state.el && cursor(state.at, columnsOf(state.el, size), size),
    h("p", { id: "cell-here", class: "hint", "aria-live": "polite" }, tasks[state.at] ? describe(tasks[state.at]) : "Point at a cell to see its task; click to open it."),
  );
}

/** The frame around the cell in use, above the canvas, which is not drawn again for it. */
const cursor = (at, columns, size) => h("i", { key: "cursor", class: "cell-cursor", "aria-hidden": "true", style: { left: `${(at % columns) * size}px`, top: `${Math.floor(at / columns) * size}px`, width: `${size - 1}px`, height: `${size - 1}px` } });

const columnsOf = (el, size) => Math.max(1, Math.floor((el.parentElement.clientWidth - 2) / size));

function draw(state, tasks, size, shown, key, source) {
  const el = state.el;
  if (!el || !el.parentElement?.clientWidth) return;
  if (state.drawn === key && state.source === source) return;
  state.drawn = key;
  state.source = source;
  const columns = columnsOf(el, size);
  const ratio = devicePixelRatio || 1;
  const [width, height] = [columns * size, Math.ceil(tasks.length / columns) * size];
  el.width = width * ratio;
  el.height = height * ratio;
  el.style.setProperty("width", `${width}px`);
  el.style.setProperty("height", `${height}px`);
  const pen = el.getContext("2d");
  pen.scale(ratio, ratio);
  const colours = Object.fromEntries(["SUCCESS", "FAILED", "KILLED", "RUNNING", "SUSPENDED", "READY", "WAITING"].map((name) => [name, token(`--cell-${name.toLowerCase()}`)]));
  const ink = token("--surface");
  const gap = size > 10 ? 2 : 1;
  pen.font = `11px ${token("--mono")}`;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  tasks.forEach((task, index) => {
    const [x, y] = [(index % columns) * size, Math.floor(index / columns) * size];
    pen.globalAlpha = shown(task) ? 1 : FADED;
    pen.fillStyle = colours[task.state];
    pen.fillRect(x, y, size - gap, size - gap);
    if (size === NUMBERED) label(pen, task, x, y, size - gap, ink);
    else mark(pen, task.state, x, y, size - gap, ink);
  });
  pen.globalAlpha = 1;
}

/** The index of a task on its cell, below the shape of its state. */
function label(pen, { index, state }, x, y, size, ink) {
  const isMarked = MARKED.has(state);
  if (isMarked) mark(pen, state, x + size / 4, y + 1, size / 2, ink);
  pen.fillStyle = isMarked || state === "SUCCESS" ? ink : token("--text");
  pen.fillText(String(index), x + size / 2, y + (isMarked ? size * 0.72 : size / 2));
}

/** A shape inside a cell, so that states differ without their colour. */
function mark(pen, state, x, y, size, ink) {
  if (!MARKED.has(state)) return;
  pen.strokeStyle = ink;
  pen.lineWidth = size > 10 ? 1.6 : 1;
  const [a, b] = [size * 0.28, size * 0.72];
  pen.beginPath();
  if (state === "FAILED") {
    pen.moveTo(x + a, y + a);
    pen.lineTo(x + b, y + b);
    pen.moveTo(x + b, y + a);
    pen.lineTo(x + a, y + b);
  } else if (state === "RUNNING") {
    pen.moveTo(x + a, y + a);
    pen.lineTo(x + b, y + size / 2);
    pen.lineTo(x + a, y + b);
  } else if (state === "KILLED") {
    pen.moveTo(x + a, y + size / 2);
    pen.lineTo(x + b, y + size / 2);
  } else {
    pen.moveTo(x + a, y + a);
    pen.lineTo(x + a, y + b);
    pen.moveTo(x + b, y + a);
    pen.lineTo(x + b, y + b);
  }
  pen.stroke();
}
