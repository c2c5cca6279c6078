// A graph drawn as SVG: nodes with a state, progress and a link, curves between them; drag to pan, wheel to zoom.

import { h } from "../core/vdom.js";
import { shape, tone } from "../core/states.js";
import { glyph } from "../parts/icons.js";
import { graphMap, placeMap } from "./graph_map.js";
import { layered } from "./layout.js";

const WIDTH = 190;
const HEIGHT = 46;
const NAME = 19;
const DETAIL = 28;
const MARGIN = 24;
const FINDABLE = 12;
const NARROW = 500;
/** The least scale of a graph that fits as a whole, and the scale that a narrow screen begins with otherwise. */
const [LEAST, READABLE] = [0.62, 0.85];
/** Below these scales a node is drawn without its details, and without its name. */
const [FAR, FARTHER] = [0.4, 0.2];
/** A graph that does not fit is first shown at the first node in one of these states. */
const FIRST_SHOWN = ["FAILED", "RUNNING"];

/** The pan and zoom of a graph. Keep it with the view. */
export const graphState = () => ({ x: 0, y: 0, scale: 0, moved: false, el: null, key: "", plan: null, focus: null, vnode: null, map: null, source: null });

/**
 * Draw a graph. `nodes`: [{id, after, phase, state, title, detail, shares, href, label}]; `source` changes with the data.
 */
export function graph(state, nodes, { label, source }) {
  const key = nodes.map((node) => `${node.id}<${(node.after || []).join()}@${node.phase || 0}`).join(";");
  if (state.key !== key) {
    state.key = key;
    state.plan = layered(nodes, { width: WIDTH, height: HEIGHT });
    state.scale = 0;
    state.moved = false;
    state.source = null;
  }
  if (state.source !== source || !state.vnode) {
    state.source = source;
    state.focus = FIRST_SHOWN.map((shown) => nodes.find((node) => node.state === shown)).find(Boolean)?.id;
    state.map = nodes.length > FINDABLE && graphMap(state.plan, nodes, { width: WIDTH, height: HEIGHT }, (x, y) => center(state, x, y));
    state.vnode = h("g", { class: "graph-content" }, edges(state.plan, nodes), nodes.map((node) => drawn(node, state.plan.places.get(node.id))));
  }
  return h(
    "div",
    { class: "graph", role: "group", "aria-label": label, onfocusin: (event) => reveal(state, event.target.closest(".node")) },
    h(
      "div",
      { class: "graph-tools" },
      nodes.length > FINDABLE && h("input", { type: "search", "aria-label": "Find in the graph", placeholder: "Find", oninput: (event) => find(state, nodes, event.target.value), onkeydown: (event) => event.key === "Enter" && find(state, nodes, event.target.value, 1) }),
      h("button", { class: "quiet", "aria-label": "Zoom in", title: "Zoom in", onclick: () => zoom(state, 1.25) }, glyph("plus")),
      h("button", { class: "quiet", "aria-label": "Zoom out", title: "Zoom out", onclick: () => zoom(state, 0.8) }, glyph("minus")),
      h("button", { class: "quiet", "aria-label": "Show all", title: "Show all", onclick: () => fit(state, 0) }, glyph("fit")),
    ),
    h("svg", { key: "svg", style: { height: `min(${Math.ceil(state.plan.height) + 4 * MARGIN}px, max(320px, 100vh - 330px))` }, mount: (el) => mount(state, el), update: () => place(state) }, state.vnode),
    state.map,
  );
}

function edges(plan, nodes) {
  const ended = new Set(nodes.filter((node) => ["SUCCESS", "TOLERATED"].includes(node.state)).map((node) => node.id));
  return plan.edges.map(({ from, to, bends }) => {
    const [a, b] = [plan.places.get(from), plan.places.get(to)];
    const stops = [[a.x + WIDTH, a.y + HEIGHT / 2], ...bends.flatMap(({ x, y }) => [[x, y], [x + WIDTH, y]]), [b.x, b.y + HEIGHT / 2]];
    let path = `M${stops[0].join(" ")}`;
    for (let at = 1; at < stops.length; at += 2) path += curve(stops[at - 1], stops[at]) + (stops[at + 1] ? `H${stops[at + 1][0]}` : "");
    return h("path", { key: `${from}>${to}`, class: `edge ${ended.has(from) ? "met" : ""}`, d: path });
  });
}

function curve([x1, y1], [x2, y2]) {
  const bend = Math.min(Math.max((x2 - x1) / 2, 24), 90);
  return `C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
}

const short = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

function drawn(node, { x, y }) {
  return h(
    "a",
    { key: node.id, href: node.href, class: `node ${tone(node.state)}`, transform: `translate(${x} ${y})`, "aria-label": node.label },
    h("rect", { class: "box", width: WIDTH, height: HEIGHT, rx: 8 }),
    progress(node.shares || []),
    h("svg", { x: 10, y: 7, width: 16, height: 16, viewBox: "0 0 16 16" }, shape(node.state)),
    h("text", { x: 34, y: 19, class: "name" }, short(node.title, NAME)),
    h("text", { x: 34, y: 33, class: "detail" }, short(node.detail || "", DETAIL)),
    h("title", {}, node.label),
  );
}

/** A bar of the shares of a node's tasks by state: [[state, share]]. */
function progress(shares) {
  if (!shares.length) return null;
  let x = 10;
  const parts = shares.map(([state, share]) => {
    const part = h("rect", { key: state, class: `share-${state.toLowerCase()}`, x, y: HEIGHT - 8, width: (WIDTH - 20) * share, height: 3 });
    x += (WIDTH - 20) * share;
    return part;
  });
  return [h("rect", { class: "share-all", x: 10, y: HEIGHT - 8, width: WIDTH - 20, height: 3, rx: 1.5 }), parts];
}

function mount(state, el) {
  state.el = el;
  let drag = null;
  let moved = false;
  el.addEventListener("pointerdown", (event) => {
    drag = { x: event.clientX - state.x, y: event.clientY - state.y, id: event.pointerId };
    moved = false;
  });
  el.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const [x, y] = [event.clientX - drag.x, event.clientY - drag.y];
    if (!moved && Math.hypot(x - state.x, y - state.y) < 4) return;
    if (!moved) el.setPointerCapture(drag.id);
    moved = true;
    [state.x, state.y] = [x, y];
    state.moved = true;
    place(state);
  });
  const end = () => (drag = null);
  el.addEventListener("pointerup", end);
  el.addEventListener("pointercancel", end);
  el.addEventListener("click", (event) => moved && event.preventDefault(), true);
  el.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(state, Math.exp(-event.deltaY / 500), event);
  }, { passive: false });
  new ResizeObserver(() => {
    if (!state.moved) state.scale = 0;
    place(state);
  }).observe(el);
  place(state);
}

function place(state) {
  if (!state.el?.clientWidth) return;
  if (!state.scale) fit(state, state.el.clientWidth < NARROW ? READABLE : LEAST);
  const content = state.el.querySelector(".graph-content");
  content.setAttribute("transform", `translate(${state.x} ${state.y}) scale(${state.scale})`);
  content.classList.toggle("far", state.scale < FAR);
  content.classList.toggle("farther", state.scale < FARTHER);
  const map = state.el.parentElement?.querySelector(".graph-map");
  if (map) placeMap(map, state);
}

/** Show the whole graph, or its beginning if it would be smaller than `least`: the first layer in the middle of the height. */
function fit(state, least) {
  const { clientWidth: width, clientHeight: height } = state.el;
  const whole = Math.min((width - 2 * MARGIN) / state.plan.width, (height - 2 * MARGIN) / state.plan.height, 1);
  state.scale = Math.max(whole >= LEAST || !least ? whole : least, 0.02);
  state.x = Math.max(MARGIN, (width - state.plan.width * state.scale) / 2);
  const size = state.plan.height * state.scale;
  const first = [...state.plan.places.values()].filter(({ x }) => x === 0).map(({ y }) => y + HEIGHT / 2);
  const middle = height / 2 - (first.reduce((sum, y) => sum + y, 0) / Math.max(first.length, 1)) * state.scale;
  state.y = size + 2 * MARGIN > height ? Math.min(MARGIN, Math.max(middle, height - size - MARGIN)) : (height - size) / 2;
  if (least && whole < LEAST && state.focus) lookAt(state, state.plan.places.get(state.focus));
  place(state);
}

/** Bring a node near the middle, as far as the graph reaches. */
function lookAt(state, { x, y }) {
  const inside = (at, size, space) => Math.min(MARGIN, Math.max(space / 2 - at * state.scale, space - size * state.scale - MARGIN));
  const { clientWidth: width, clientHeight: height } = state.el;
  if (state.plan.width * state.scale + 2 * MARGIN > width) state.x = inside(x + WIDTH / 2, state.plan.width, width);
  if (state.plan.height * state.scale + 2 * MARGIN > height) state.y = inside(y + HEIGHT / 2, state.plan.height, height);
}

function center(state, x, y) {
  state.x = state.el.clientWidth / 2 - x * state.scale;
  state.y = state.el.clientHeight / 2 - y * state.scale;
  state.moved = true;
  place(state);
}

function zoom(state, factor, event) {
  const box = state.el.getBoundingClientRect();
  const at = event ? [event.clientX - box.left, event.clientY - box.top] : [box.width / 2, box.height / 2];
  const scale = Math.max(0.02, Math.min(2.5, state.scale * factor));
  state.x = at[0] - ((at[0] - state.x) * scale) / state.scale;
  state.y = at[1] - ((at[1] - state.y) * scale) / state.scale;
  state.scale = scale;
  state.moved = true;
  place(state);
}

/** Show the first node whose title contains a text in the middle, or the next one (`step`), and mark it. */
function find(state, nodes, text, step = 0) {
  const found = text ? nodes.filter((node) => node.title.toLowerCase().includes(text.toLowerCase())) : [];
  state.match = step && state.text === text ? (state.match + step) % Math.max(found.length, 1) : 0;
  state.text = text;
  state.el.querySelector(".node.found")?.classList.remove("found");
  const node = found[state.match];
  if (!node) return;
  const { x, y } = state.plan.places.get(node.id);
  state.scale = Math.max(state.scale, 0.8);
  center(state, x + WIDTH / 2, y + HEIGHT / 2);
  state.el.querySelectorAll(".node")[nodes.indexOf(node)].classList.add("found");
}

/** Bring a node that got the focus by keyboard into sight. */
function reveal(state, node) {
  if (!node?.matches(":focus-visible")) return;
  const [outer, inner] = [state.el.getBoundingClientRect(), node.getBoundingClientRect()];
  if (inner.left < outer.left || inner.right > outer.right) state.x += outer.left + outer.width / 2 - inner.left - inner.width / 2;
  if (inner.top < outer.top || inner.bottom > outer.bottom) state.y += outer.top + outer.height / 2 - inner.top - inner.height / 2;
  place(state);
}
