// The steps of a job as a table.

import { h, memo } from "../core/vdom.js";
import { between, clock, duration, number } from "../core/format.js";
import { signedInAs } from "../core/permissions.js";
import { href } from "../core/router.js";
import { badge, LIVE } from "../core/states.js";
import { stepMenu } from "../actions/step_actions.js";
import { bar, ended } from "../charts/progress.js";
import { paged, pagesState } from "../parts/pages.js";

const LIVE_MS = 5_000;

export function stepsTab(context) {
  const state = pagesState();
  const table = memo((job, run) => drawn(job, run, state, context));
  return { render: ({ job, run }) => table(job, run, LIVE.has(job.state) ? Math.floor(Date.now() / LIVE_MS) : 0, signedInAs(), state.from, state.text) };
}

/** The table; drawn again when the job or the page changes, and while it is live from time to time for the durations. */
function drawn(job, run, state, context) {
  const { shown, controls } = paged(state, job.steps, { what: "Steps", text: (step) => `${step.stepName} ${step.state}`, redraw: context.redraw });
  return h(
    "div",
    { class: "card scroll-x", tabindex: "0" },
    controls,
    h(
      "table",
      { class: "table-steps" },
      h("thead", {}, h("tr", {}, ["Step", "State", "Tasks", "", "Started", "Duration", "Compute time", "Type", "Notes", "Actions"].map((name) => h("th", { scope: "col", class: ["Duration", "Compute time"].includes(name) ? "number" : "" }, name)))),
      h("tbody", {}, shown.map((step) => row(job, run, step))),
    ),
  );
}

const row = (job, run, step) =>
  h(
    "tr",
    { key: step.index },
    h("td", { class: "nowrap" }, h("a", { href: href(["jobs", job.jobName, job.trigger], { run, tab: "tasks", step: step.stepName }) }, step.stepName)),
    h("td", {}, badge(step.state)),
    h("td", { class: "number" }, `${number(ended(step.counts))} / ${number(step.totalWork)}`),
    h("td", { class: "bar-cell" }, bar(step.counts, step.totalWork)),
    h("td", { class: "nowrap muted" }, step.startedTime ? clock(step.startedTime) : "–"),
    h("td", { class: "number" }, step.startedTime ? duration(between(step.startedTime, step.completedTime)) : "–"),
    h("td", { class: "number" }, step.computeTime ? duration(step.computeTime * 1000) : "–"),
    h("td", { class: "muted" }, step.type),
    h("td", { class: "wide muted", title: step.notes }, step.notes),
    h("td", {}, stepMenu(job, step)),
  );
