// A list of many rows that draws only those in sight, and asks for more near its end.

import { h } from "../core/vdom.js";

const AROUND = 12;

/** A list's scroll position and cursor. Keep it with the view. */
export const listState = () => ({ top: 0, height: 600, here: -1, el: null });

/**
 * Draw a list. `row(item, index)` returns the cells of a row, `columns` their widths, `more()` is called near the end.
 */
export function rows(state, items, { label, columns, row, rowHeight = 34, open, more, redraw }) {
  const first = Math.max(0, Math.floor(state.top / rowHeight) - AROUND);
  const last = Math.min(items.length, Math.ceil((state.top + state.height) / rowHeight) + AROUND);
  if (more && last > items.length - 2 * AROUND) queueMicrotask(more);
  const measure = (el) => {
    state.el = el;
    if (state.height !== el.clientHeight || state.top !== el.scrollTop) {
      state.top = el.scrollTop;
      state.height = el.clientHeight;
      redraw();
    }
  };
  const mount = (el) => {
    el.scrollTop = state.top;
    new ResizeObserver(() => measure(el)).observe(el);
  };
  const keydown = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1, PageDown: 10, PageUp: -10 }[event.key];
    if (event.key === "Enter" && event.target === state.el && items[state.here]) open?.(items[state.here]);
    if (!step || event.target !== state.el) return;
    event.preventDefault();
    state.here = Math.max(0, Math.min(items.length - 1, state.here + step));
    const top = state.here * rowHeight;
    if (top < state.el.scrollTop) state.el.scrollTop = top;
    if (top + rowHeight > state.el.scrollTop + state.el.clientHeight) state.el.scrollTop = top + rowHeight - state.el.clientHeight;
    redraw();
  };
  return h(
    "div",
    { class: "rows", role: "list", tabindex: "0", "aria-label": label, style: { height: `${items.length * rowHeight + 2}px` }, onscroll: (event) => measure(event.target), onkeydown: keydown, mount, update: measure },
    h("div", { key: "space", role: "presentation", style: { height: `${items.length * rowHeight}px` } }),
    items.slice(first, last).map((item, offset) => {
      const index = first + offset;
      return h("div", { key: index, class: `row ${index === state.here ? "here" : ""}`, role: "listitem", "aria-setsize": items.length, "aria-posinset": index + 1, style: { top: `${index * rowHeight}px`, "grid-template-columns": columns } }, row(item, index));
    }),
  );
}

export const rowsHead = (columns, cells) => h("div", { class: "rows-head", style: { "grid-template-columns": columns } }, cells.map((cell) => (typeof cell === "string" ? h("span", {}, cell) : cell)));
