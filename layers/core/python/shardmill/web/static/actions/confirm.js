// A confirmation that describes an action, runs it, and reports the result.

import { h } from "../core/vdom.js";
import { focusUnlessTyping, heading, openDialog } from "../parts/dialog.js";
import { faults } from "../parts/messages.js";
import { toast } from "../parts/toast.js";
import { effects, trial } from "./trial.js";

/**
 * Ask, then call `run({reason})`. Returns a promise of whether it was done.
 * With `tries`, {action, job, body}, the sentences of this action's dry run come before the `lines`.
 * `isReady` says whether it can be confirmed.
 */
export function confirm(title, { lines = [], button, done, run, danger = false, reason = true, fields, tries, isReady: canStart }) {
  const state = { reason: "", busy: false, error: null };
  let tried;
  return openDialog(title, (close, redraw) => {
    tried ??= tries && trial(redraw);
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
    const texts = (typeof lines === "function" ? lines() : lines).filter(Boolean);
    const isReady = (!tries || tried.isReady()) && (canStart?.() ?? true);
    return [
      heading(title, close),
      h(
        "div",
        { class: "body", mount: () => tries && queueMicrotask(() => tried.ask(tries.action, [tries.job], tries.body)) },
        tries && effects(tried, [tries.job]),
        texts.length > 0 && h("div", { class: "why" }, texts.map((line) => h("p", {}, line))),
        fields?.(redraw),
        reason && h("div", { class: "field" }, h("label", { for: "reason" }, "Reason"), h("input", { id: "reason", maxlength: "500", placeholder: "Optional; recorded in the history", value: state.reason, oninput: (event) => (state.reason = event.target.value) })),
        state.error && h("div", { class: "error", role: "alert" }, h("p", {}, state.error.message), faults(state.error)),
      ),
      h("footer", {}, h("button", { onclick: () => close(false) }, "Cancel"), h("button", { key: String(isReady), class: `primary ${danger ? "danger" : ""}`, disabled: state.busy || !isReady, onclick: start, mount: focusUnlessTyping }, state.busy ? "Working" : button)),
    ];
  });
}
