// Long lists in pages, so that a job of 2,000 steps stays quick, with a field that finds entries.

import { h } from "../core/vdom.js";
import { number } from "../core/format.js";

const PAGE = 100;

/** The page and the searched text of a list. Keep it with the view. */
export const pagesState = () => ({ from: null, text: "" });

/**
 * The entries of the chosen page and the controls to choose another; `text(item)` is searched, `first` is on the first page shown.
 */
export function paged(state, items, { text, what, first, redraw }) {
  if (items.length <= PAGE) return { shown: items, controls: null };
  const wanted = state.text.trim().toLowerCase();
  const found = wanted ? items.filter((item) => text(item).toLowerCase().includes(wanted)) : items;
  const at = state.from ?? Math.max(0, found.indexOf(first));
  const start = Math.min(at - (at % PAGE), Math.max(0, found.length - 1 - ((found.length - 1) % PAGE)));
  const turn = (from) => {
    state.from = from;
    redraw();
  };
  const search = (event) => {
    state.text = event.target.value;
    turn(0);
  };
  const controls = h(
    "div",
    { key: "pages", class: "filters pages" },
    h("input", { type: "search", "aria-label": `Find ${what.toLowerCase()}`, placeholder: "Find by name or state", value: state.text, oninput: search }),
    pageButtons({ start, size: PAGE, total: found.length, what, turn }) || h("span", { class: "muted", role: "status" }, `${number(found.length)} of ${number(items.length)}`),
  );
  return { shown: found.slice(start, start + PAGE), controls };
}

/** The buttons to the page before and after; null if there is one page only. */
export function pageButtons({ start, size, total, what, turn }) {
  if (total <= size) return null;
  const last = Math.min(start + size, total);
  return [
    h("button", { disabled: start === 0, onclick: () => turn(Math.max(0, start - size)) }, "Previous"),
    h("span", { class: "muted", role: "status" }, `${what} ${number(start + 1)} to ${number(last)} of ${number(total)}`),
    h("button", { disabled: last >= total, onclick: () => turn(start + size) }, "Next"),
  ];
}
