// The timeline of the steps of a job, and of the tasks of one step.

import { h } from "../core/vdom.js";
import { url } from "../core/api.js";
import { clock, duration, ms, number } from "../core/format.js";
import { href, setQuery } from "../core/router.js";
import { icon, LIVE, tone } from "../core/states.js";
import { gridPath, tasksOf } from "../core/task_grid.js";
import { pending } from "../parts/messages.js";
import { paged, pagesState } from "../parts/pages.js";

const MOST_TASKS = 60;
const MOST_EARLIER = 50;
const [SECOND, MINUTE, HOUR] = [1_000, 60_000, 3_600_000];
const TICKS = [...[0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30].map((size) => size * SECOND), ...[1, 2, 5, 10, 15, 30].map((size) => size * MINUTE), ...[1, 2, 3, 6, 12, 24, 48, 168].map((size) => size * HOUR)];
const MOST_TICKS = 8;

export function ganttTab(context) {
  const path = ({ job, parts, run }) => {
    const step = job.steps.find((each) => each.stepName === context.query.step);
    return step && gridPath(parts, step.stepName, { run });
  };
  const state = { earlier: null };
  const pages = pagesState();
  return {
    paths: (tab) => [path(tab), state.earlier].filter(Boolean),
    render(tab) {
      const steps = tab.job.steps.filter((step) => step.startedTime);
      const now = LIVE.has(tab.job.state) ? Date.now() : (ms(tab.job.completedTime) ?? ms(tab.job.updateTime));
      const start = Math.min(...steps.map((step) => ms(step.startedTime)), ms(tab.job.startedTime) ?? Infinity, ms(tab.job.createTime));
      const end = Math.max(...steps.map((step) => ms(step.completedTime) ?? now), goesOn(tab.job) ? now : 0, start + 1);
      const scale = (time) => (100 * (time - start)) / (end - start);
      const { shown, controls } = paged(pages, tab.job.steps, { what: "Steps", text: (step) => `${step.stepName} ${step.state}`, first: tab.job.steps.find((step) => step.stepName === context.query.step), redraw: context.redraw });
      return h(
        "div",
        { class: "card gantt", role: "group", "aria-label": "Timeline of the steps", style: { "--tick": `${(100 * tick(end - start)) / (end - start)}%` } },
        controls,
        axis(start, end),
        shown.map((step) => [row(tab, step, scale, now, context), step.stepName === context.query.step && attempts(context, tab, step, scale, path(tab), state)]),
      );
    },
  };
}

/** Whether the axis ends now: a suspended job ends with its last step, unless one still runs. */
const goesOn = (job) => LIVE.has(job.state) && job.state !== "SUSPENDED";

/** The distance of the ticks of an axis: a round time. */
const tick = (span) => TICKS.find((size) => span / size <= MOST_TICKS) || span / MOST_TICKS;

/** A time of the axis, without the parts that are zero: 2 m, 1 h. */
const axisTime = (time) => (time ? duration(time).replace(/ 00 [sm]$/, "").replace(".0 ", " ") : "0");

function axis(start, end) {
  const every = tick(end - start);
  const ticks = Array.from({ length: Math.floor((end - start) / every) + 1 }, (_, index) => index * every);
  return h("div", { class: "gantt-row gantt-axis" }, h("span", { class: "muted" }, clock(start), h("span", { class: "hide-small" }, ` + ${duration(end - start)}`)), h("span", { class: "track" }, ticks.map((time) => h("i", { key: time, class: time > 0.95 * (end - start) ? "last" : "", style: { left: `${(100 * time) / (end - start)}%` } }, axisTime(time)))));
}

function row(tab, step, scale, now, context) {
  const from = ms(step.startedTime);
  const to = ms(step.completedTime) ?? now;
  const open = context.query.step === step.stepName;
  return h(
    "div",
    { key: step.index, class: "gantt-row" },
    h("button", { class: "link", title: step.stepName, "aria-expanded": open ? "true" : "false", onclick: () => setQuery({ step: open ? "" : step.stepName }) }, icon(step.state, step.state), h("span", {}, step.stepName)),
    h("span", { class: "track" }, from ? h("i", { class: `span ${tone(step.state)} ${labelSide(scale(from), scale(to))}`, title: `${step.stepName}: ${duration(to - from)}`, style: { left: `${scale(from)}%`, width: `max(3px, ${scale(to) - scale(from)}%)` } }, h("b", {}, duration(to - from))) : h("em", { class: "muted" }, step.notes || (step.state === "SKIPPED" ? "skipped" : "has not started"))),
  );
}

/** The place of a bar's duration: after the bar, before it, or inside it if there is no room on either side. */
const labelSide = (from, to) => (to <= 80 ? "" : from > 25 ? "late" : "full");

/** The longest tasks of a step, each with its attempts. */
function attempts(context, tab, step, scale, path, state) {
  const resource = context.live(path, { every: LIVE.has(step.state) ? 6 : 20 });
  const message = pending(resource, "the tasks");
  if (message) return h("div", { key: `${step.index}-tasks` }, message);
  const tasks = tasksOf(resource.data).filter((task) => task.start);
  const longest = tasks.sort((a, b) => b.failures - a.failures || b.ms - a.ms).slice(0, MOST_TASKS).sort((a, b) => a.start - b.start);
  const before = earlier(context, tab, step, longest, state);
  return h(
    "div",
    { key: `${step.index}-tasks`, class: "gantt-tasks" },
    tasks.length > MOST_TASKS && h("p", { class: "hint" }, `Of ${number(tasks.length)} tasks, the ${MOST_TASKS} that failed most or took longest`),
    longest.map((task) =>
      h(
        "div",
        { key: task.index, class: "gantt-row small" },
        h("a", { href: href(["jobs", tab.job.jobName, tab.job.trigger, "steps", step.stepName, String(task.index)], { run: tab.run }) }, `Task ${task.index}`, task.attempt > 1 && h("small", { class: "muted" }, ` attempt ${task.attempt}`)),
        h("span", { class: "track" }, (before.get(task.index) || []).filter((each) => each.attempt !== task.attempt && each.startTime).map((each) => span(each.attempt, ms(each.startTime), ms(each.endTime) ?? ms(each.startTime), "FAILED", scale, `attempt ${each.attempt}, ${each.reason || "success"}`)), span(task.attempt, task.start, task.start + task.ms, task.state, scale, `attempt ${task.attempt}${task.worker ? ` on ${task.worker}` : ""}`)),
      ),
    ),
  );
}

const span = (key, from, to, state, scale, text) => h("i", { key, class: `span ${tone(state)}`, title: `${duration(to - from)}, ${text}`, style: { left: `${Math.max(0, scale(from))}%`, width: `max(2px, ${scale(to) - Math.max(0, scale(from))}%)` } });

/** The attempts of each task that has more than one, read in one request. */
function earlier(context, tab, step, tasks, state) {
  const indexes = tasks.filter((task) => task.attempt > 1).slice(0, MOST_EARLIER).map((task) => task.index);
  const found = new Map();
  state.earlier = null;
  if (!indexes.length) return found;
  const query = new URLSearchParams([...indexes.map((index) => ["index", index]), ...(tab.run ? [["run", tab.run]] : [])]);
  state.earlier = `${url([...tab.parts, "steps", step.stepName, "tasks"])}:attempts?${query}`;
  for (const each of context.live(state.earlier, { every: LIVE.has(step.state) ? 10 : 60 }).data?.items || []) {
    if (!found.has(each.index)) found.set(each.index, []);
    found.get(each.index).push(each);
  }
  return found;
}
