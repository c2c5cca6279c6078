// A confirmation that says what will happen, runs it, and reports the result.

import { h } from "../core/vdom.js";
import { heading, openDialog } from "./dialog.js";
import { faults } from "./messages.js";
import { toast } from "./toast.js";

/** Ask, then call `run({reason})`. Returns a promise of whether it was done. */
export function confirm(title, { lines, button, done, run, danger = false, reason = true, fields }) {
  const state = { reason: "", busy: false, error: null };
  return openDialog(title, (close, redraw) => {
    const start = async () => {
      state.busy = true;
      state.error = null;
      redraw();
      try {
        await run(state.reason ? { reason: state.reason } : {});
        toast(done);
        return close(true);
      } catch (error) {
        state.error = error;
        state.busy = false;
        return redraw();
      }
    };
    return [
      heading(title, close),
      h(
        "div",
        { class: "body" },
        h("div", { class: "why" }, (typeof lines === "function" ? lines() : lines).filter(Boolean).map((line) => h("p", {}, line))),
        fields?.(redraw),
        reason && h("div", { class: "field" }, h("label", { for: "reason" }, "Reason"), h("input", { id: "reason", maxlength: "500", placeholder: "Optional; recorded in the history", value: state.reason, oninput: (event) => (state.reason = event.target.value) })),
        state.error && h("div", { class: "error", role: "alert" }, h("p", {}, state.error.message), faults(state.error)),
      ),
      h("footer", {}, h("button", { onclick: () => close(false) }, "Cancel"), h("button", { class: `primary ${danger ? "danger" : ""}`, disabled: state.busy, onclick: start, mount: (el) => el.focus() }, state.busy ? "Working" : button)),
    ];
  });
}
