// The tasks of a step: a grid with a cell for each, filters, and actions on failed tasks.

import { h } from "../core/vdom.js";
import { duration, number, plural } from "../core/format.js";
import { go, href, setQuery } from "../core/router.js";
import { allows, ofJob } from "../core/permissions.js";
import { icon, LIVE, TASK_STATES, tone, word } from "../core/states.js";
import { chosenStep, gridPath, tasksOf } from "../core/task_grid.js";
import { confirmPart } from "../actions/step_actions.js";
import { cells, cellState } from "../charts/cells.js";
import { glyph } from "../parts/icons.js";
import { empty, pending } from "../parts/messages.js";
import { stepChoice } from "../parts/step_choice.js";

const PAGE = 10_000;

export function tasksTab(context) {
  const state = cellState();
  const path = ({ job, parts, run }) => {
    const step = chosenStep(job, context.query.step);
    return step && gridPath(parts, step.stepName, { run, from: context.query.from });
  };
  return {
    paths: (tab) => [path(tab)],
    render(tab) {
      const step = chosenStep(tab.job, context.query.step);
      if (!step) return empty("The job has no steps yet.");
      const resource = context.live(path(tab), { every: LIVE.has(step.state) ? 5 : 20 });
      return h(
        "div",
        { class: "card pad-all" },
        h("div", { class: "filters" }, stepChoice(tab.job, step), resource.data && pages(resource.data), resource.data && rerunFailed(tab, step, resource.data)),
        pending(resource, "the tasks") || content(context, tab, step, resource.data, state),
      );
    },
  };
}

function content(context, { job, run }, step, grid, state) {
  if (!grid.states) return empty("The step has no tasks yet.");
  const tasks = tasksOf(grid);
  const { state: wanted, worker, longer } = context.query;
  const shown = (task) => (!wanted || task.state === wanted) && (!worker || task.worker === worker) && (!longer || task.ms >= Number(longer) * 1000);
  const found = wanted || worker || longer ? tasks.filter(shown) : tasks;
  return [
    filters(tasks, context.query, found.length),
    cells(state, tasks, {
      source: grid, shown, filterKey: JSON.stringify([wanted, worker, longer]), redraw: context.redraw,
      label: `${plural(tasks.length, "task")} of ${step.stepName}`,
      open: (task) => go(href(["jobs", job.jobName, job.trigger, "steps", step.stepName, String(task.index)], { run })),
    }),
    list(found, job, step, run),
  ];
}

function filters(tasks, query, found) {
  const counts = {};
  const workers = new Set();
  for (const task of tasks) {
    counts[task.state] = (counts[task.state] || 0) + 1;
    if (task.worker) workers.add(task.worker);
  }
  return h(
    "div",
    { class: "filters" },
    h("div", { class: "chips", role: "group", "aria-label": "State" }, TASK_STATES.filter((state) => counts[state]).map((state) => h("button", { key: state, class: `chip ${tone(state)}`, "aria-pressed": query.state === state ? "true" : "false", onclick: () => setQuery({ state: query.state === state ? "" : state }) }, icon(state), `${word(state)} ${number(counts[state])}`))),
    workers.size > 0 && h("select", { "aria-label": "Worker", onchange: (event) => setQuery({ worker: event.target.value }) }, h("option", { value: "", selected: !query.worker }, "Any worker"), [...workers].sort().map((name) => h("option", { value: name, selected: name === query.worker }, name))),
    h("label", { class: "check" }, "Longer than", h("input", { type: "number", min: "0", step: "any", size: 6, class: "seconds", value: query.longer || "", onchange: (event) => setQuery({ longer: event.target.value }) }), "s"),
    h("span", { class: "muted", role: "status" }, found === tasks.length ? "" : `${number(found)} of ${number(tasks.length)}`),
  );
}

const list = (found, job, step, run) =>
  h(
    "details",
    { class: "task-list" },
    h("summary", {}, "As a list"),
    h("ul", {}, found.slice(0, 200).map((task) => h("li", { key: task.index }, icon(task.state, task.state), h("a", { href: href(["jobs", job.jobName, job.trigger, "steps", step.stepName, String(task.index)], { run }) }, `Task ${task.index}`), h("span", { class: "muted" }, `${task.ms ? duration(task.ms) : ""} ${task.worker}`)))),
    found.length > 200 && h("p", { class: "hint" }, `The first 200 of ${number(found.length)}. Use the filters to see others.`),
  );

function pages(grid) {
  if (grid.total <= PAGE) return null;
  const starts = Array.from({ length: Math.ceil(grid.total / PAGE) }, (_, index) => index * PAGE);
  return h("select", { "aria-label": "Part", onchange: (event) => setQuery({ from: event.target.value }) }, starts.map((start) => h("option", { value: String(start), selected: start === grid.start }, `${number(start)} to ${number(Math.min(start + PAGE, grid.total) - 1)}`)));
}

/** Run the failed shards of this step again, if the job has ended. */
function rerunFailed({ job }, step, grid) {
  const failed = tasksOf(grid).filter((task) => ["FAILED", "KILLED"].includes(task.state)).map((task) => task.index);
  if (!failed.length || !allows("operate", ofJob(job)) || (LIVE.has(job.state) && job.state !== "SUSPENDED")) return null;
  const title = `Rerun ${plural(failed.length, "task")}`;
  const run = () => confirmPart(title, job, "rerun", { steps: [step.stepName], shards: failed }, { done: "The run has started.", lines: [`Tasks: ${failed.slice(0, 30).join(", ")}${failed.length > 30 ? " …" : ""}`] });
  return h("button", { onclick: run }, glyph("redo"), `Rerun ${plural(failed.length, "failed task")}`);
}
