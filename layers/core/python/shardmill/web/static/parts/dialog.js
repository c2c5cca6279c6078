// Modal dialogs, outside the view, so that drawing the view does not close them.

import { h, patch } from "../core/vdom.js";
import { glyph } from "./icons.js";

/** Open a dialog. `render(close, redraw)` returns its content. Returns a promise of the value it is closed with. */
export function openDialog(label, render, { className = "" } = {}) {
  return new Promise((resolve) => {
    const before = document.activeElement;
    const dialog = document.createElement("dialog");
    dialog.className = className;
    dialog.setAttribute("aria-label", label);
    document.body.append(dialog);
    let result;
    /** Remove the dialog at once, because its content may be secret. Its close event arrives later. */
    const end = () => {
      if (!dialog.isConnected) return;
      patch(dialog, []);
      dialog.remove();
      before?.focus?.();
      resolve(result);
    };
    const close = (value) => {
      result = value;
      dialog.close();
      end();
    };
    const redraw = () => dialog.isConnected && patch(dialog, render(close, redraw));
    dialog.addEventListener("close", end);
    dialog.addEventListener("click", (event) => event.target === dialog && close());
    redraw();
    dialog.showModal();
  });
}

/** The heading of a dialog, with a button to close it. */
export const heading = (text, close) =>
  h("header", {}, h("h2", {}, text), h("button", { class: "quiet", type: "button", onclick: () => close(), "aria-label": "Close" }, glyph("close")));

/** Focus the button that confirms, as soon as it can be used, unless the user fills in a field. */
export function focusUnlessTyping(button) {
  if (!button.disabled && !["INPUT", "SELECT", "TEXTAREA"].includes(document.activeElement?.tagName)) button.focus();
}
