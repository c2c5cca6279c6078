// A button that opens a list of further actions.

import { h } from "../core/vdom.js";
import { glyph } from "./icons.js";

/** `items`: [{id, label, icon, danger, run}]; null entries are left out. */
export function menu(label, items) {
  const shown = items.filter(Boolean);
  if (!shown.length) return null;
  const leave = (event) => {
    const el = event.currentTarget;
    if (!el.contains(event.relatedTarget)) el.open = false;
  };
  const keydown = (event) => {
    if (event.key !== "Escape") return;
    event.currentTarget.open = false;
    event.currentTarget.firstElementChild.focus();
  };
  return h(
    "details",
    { class: "menu", onfocusout: leave, onkeydown: keydown },
    h("summary", { class: "button" }, glyph("more"), label),
    h("div", { class: "menu-items" }, shown.map((item) => h("button", { key: item.id, class: `quiet ${item.danger ? "danger" : ""}`, onclick: (event) => choose(event, item) }, glyph(item.icon), item.label))),
  );
}

/** Close the menu first, so that the focus returns to it after a dialog. */
function choose(event, item) {
  const el = event.target.closest("details");
  el.open = false;
  el.firstElementChild.focus();
  item.run();
}
