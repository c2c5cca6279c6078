// Bars that show how many tasks are in each state.

import { h } from "../core/vdom.js";
import { number, percent } from "../core/format.js";
import { TASK_STATES, word } from "../core/states.js";

export const ended = (counts = {}) => (counts.SUCCESS || 0) + (counts.FAILED || 0) + (counts.KILLED || 0);

/** The counts of all steps of a job together. */
export function total(job) {
  const counts = {};
  let size = 0;
  for (const step of job.steps || []) {
    size += step.totalWork || 0;
    for (const [state, count] of Object.entries(step.counts || {})) counts[state] = (counts[state] || 0) + count;
  }
  return { counts, size };
}

export function bar(counts = {}, size = 0) {
  const label = TASK_STATES.filter((state) => counts[state]).map((state) => `${number(counts[state])} ${word(state).toLowerCase()}`).join(", ") || "no tasks yet";
  return h("span", { class: "bar", role: "img", "aria-label": label, title: label }, TASK_STATES.filter((state) => counts[state] && state !== "READY" && state !== "WAITING").map((state) => h("i", { key: state, class: `cell-${state.toLowerCase()}`, style: { width: `${(100 * counts[state]) / Math.max(size, 1)}%` } })));
}

export function progress(counts = {}, size = 0) {
  const done = ended(counts);
  return h("span", { class: "progress" }, bar(counts, size), h("span", {}, `${number(done)} / ${number(size)}`), h("span", { class: "muted" }, `${percent(done, size)} %`));
}
