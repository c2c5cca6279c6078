// Short messages about finished actions.

import { h } from "../core/vdom.js";

const SECONDS = 6;
const shown = [];

export function toast(text, kind = "done") {
  const message = { text, kind };
  shown.push(message);
  setTimeout(() => shown.splice(shown.indexOf(message), 1), SECONDS * 1000);
}

export const toasts = () => h("div", { class: "toasts", role: "status", "aria-live": "polite" }, shown.map(({ text, kind }) => h("p", { class: kind }, text)));
