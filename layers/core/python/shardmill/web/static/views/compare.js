// Compare a run with another: steps that took longer, and steps that failed only in this run.

import { h } from "../core/vdom.js";
import { url } from "../core/api.js";
import { between, clock, duration, number } from "../core/format.js";
import { href, setQuery } from "../core/router.js";
import { badge } from "../core/states.js";
import { gridPath, tasksOf } from "../core/task_grid.js";
import { empty, pending } from "../parts/messages.js";

export const title = ({ jobName, trigger }) => `Compare ${jobName} ${trigger}`;

const BROKEN = ["FAILED", "KILLED"];
const MOST_STEPS = 3;
const MOST_TASKS = 12;

export default function compare(context) {
  const { jobName, trigger } = context.params;
  const parts = ["jobs", jobName, trigger];
  return function render() {
    const one = context.live(url(parts), { every: 10 });
    const others = context.live(url(["jobs"], { jobName, limit: 50 }), { every: 30 });
    const message = pending(one, "the job") || pending(others, "other jobs");
    if (message) return message;
    const choices = candidates(one.data, others.data.items);
    const chosen = choices.find(({ id }) => id === context.query.with) || choices[0];
    const other = chosen && context.live(url(chosen.parts, { run: chosen.run }), { every: 30 });
    return [
      h("p", { class: "crumbs" }, h("a", { href: "#/jobs" }, "Jobs"), " / ", h("a", { href: href(parts) }, `${jobName} ${trigger}`)),
      h("div", { class: "title" }, h("h1", {}, jobName, " ", h("span", { class: "mono" }, trigger)), badge(one.data.state), choices.length > 0 && h("label", { class: "check compared" }, "compared with", h("select", { onchange: (event) => setQuery({ with: event.target.value }) }, choices.map((choice) => h("option", { value: choice.id, selected: choice === chosen }, choice.label))))),
      !chosen ? h("div", { class: "card" }, empty("There is no other run to compare with.")) : pending(other, "the other run") || compared(context, { parts, job: one.data }, { ...chosen, job: other.data }),
    ];
  };
}

/** Earlier runs of the same job, then other triggers, the one before this first. */
function candidates(job, items) {
  const own = ["jobs", job.jobName, job.trigger];
  const runs = Array.from({ length: job.run - 1 }, (_, index) => job.run - 1 - index).map((run) => ({ id: `run ${run}`, label: `run ${run} of this job`, name: `run ${run}`, parts: own, run }));
  const others = items.filter((each) => each.id !== job.id);
  const before = others.filter((each) => each.jid < job.jid);
  return [...runs, ...[...before, ...others.filter((each) => each.jid > job.jid)].map((each) => ({ id: each.trigger, label: `${each.trigger} (${each.state}, ${clock(each.createTime, { seconds: false })})`, name: each.trigger, parts: ["jobs", each.jobName, each.trigger] }))];
}

const took = (step) => (step?.startedTime ? between(step.startedTime, step.completedTime) : null);
const failures = (step) => BROKEN.reduce((sum, state) => sum + (step?.counts?.[state] || 0), 0);

/** A row for each step of both runs; new failures first, then the largest differences. */
function differences(job, other) {
  const [here, there] = [job, other].map(({ steps }) => new Map(steps.map((step) => [step.stepName, step])));
  const rows = [...new Set([...here.keys(), ...there.keys()])].map((name) => {
    const [now, then] = [here.get(name), there.get(name)];
    const delta = took(now) !== null && took(then) !== null ? took(now) - took(then) : null;
    return { name, now, then, delta, broke: Boolean(now && then) && BROKEN.includes(now.state) && !BROKEN.includes(then.state) };
  });
  return rows.sort((a, b) => Number(b.broke) - Number(a.broke) || failures(b.now) - failures(a.now) || Math.abs(b.delta || 0) - Math.abs(a.delta || 0));
}

function compared(context, here, there) {
  const rows = differences(here.job, there.job);
  const broken = rows.filter((row) => row.broke).map((row) => row.name);
  const slower = rows.filter((row) => row.delta > 1000 && row.delta > 0.2 * took(row.then));
  const tasks = rows.filter((row) => failures(row.now) > 0 && row.then).slice(0, MOST_STEPS).map((row) => failedOnlyHere(context, row.name, here, there));
  return [
    h(
      "div",
      { class: "card why" },
      h("p", {}, broken.length ? `Failed here and not in ${there.name}: ${broken.join(", ")}.` : `No step failed here that did not fail in ${there.name}.`),
      tasks,
      h("p", {}, slower.length ? `Took longer: ${slower.map((row) => `${row.name} (+${duration(row.delta)})`).join(", ")}.` : "No step took notably longer."),
    ),
    h("div", { class: "card scroll-x", tabindex: "0" }, table(rows, there.name)),
  ];
}

/** The tasks of a step that failed in this run and not in the other, as links. */
function failedOnlyHere(context, step, here, there) {
  const [now, then] = [here, there].map(({ parts, run }) => context.live(gridPath(parts, step, { run }), { every: 60 }).data);
  if (!now || !then) return null;
  const before = new Set(tasksOf(then).filter(isBroken).map((task) => task.index));
  const found = tasksOf(now).filter((task) => isBroken(task) && !before.has(task.index));
  if (!found.length) return h("p", { key: step }, `The tasks of ${step} that failed here failed in ${there.name}, too.`);
  const links = found.slice(0, MOST_TASKS).map((task, at) => [at ? ", " : "", h("a", { key: task.index, href: href([...here.parts, "steps", step, String(task.index)]) }, String(task.index))]);
  return h("p", { key: step }, `Tasks of ${step} that failed here and not in ${there.name}: `, links, found.length > MOST_TASKS ? ` and ${number(found.length - MOST_TASKS)} more.` : ".");
}

const isBroken = (task) => BROKEN.includes(task.state);

const table = (rows, name) =>
  h(
    "table",
    { class: "table-compare" },
    h("thead", {}, h("tr", {}, ["Step", "State", `in ${name}`, "Duration", `in ${name}`, "Difference", "Failed tasks", `in ${name}`].map((text, at) => h("th", { scope: "col", class: at > 2 ? "number" : "" }, text)))),
    h("tbody", {}, rows.map((row) => h("tr", { key: row.name, class: row.broke ? "broke" : "" }, h("td", {}, row.name), h("td", {}, row.now ? badge(row.now.state) : "–"), h("td", {}, row.then ? badge(row.then.state) : "–"), h("td", { class: "number" }, duration(took(row.now))), h("td", { class: "number muted" }, duration(took(row.then))), h("td", { class: `number ${row.delta > 1000 ? "error" : ""}` }, difference(row.delta)), h("td", { class: "number" }, number(failures(row.now))), h("td", { class: "number muted" }, number(failures(row.then)))))),
  );

const difference = (delta) => (delta === null ? "–" : delta === 0 ? "0" : `${delta < 0 ? "−" : "+"}${duration(Math.abs(delta))}`);
