// A task: its attempts, inputs and outputs, and its log.

import { h } from "../core/vdom.js";
import { url } from "../core/api.js";
import { between, bytes, clock, duration, number } from "../core/format.js";
import { href, setQuery } from "../core/router.js";
import { allows } from "../core/permissions.js";
import { badge, LIVE } from "../core/states.js";
import { confirmPart } from "../actions/step_actions.js";
import { glyph } from "../parts/icons.js";
import { append, log, logState } from "../parts/log.js";
import { pending } from "../parts/messages.js";
import { keyValues, show } from "../parts/values.js";

export const title = ({ jobName, trigger, step, index }) => `${step} ${index} of ${jobName} ${trigger}`;

/** The workers, for their names; a removed worker is shown by its id. */
const WORKERS = url(["workers"], { limit: 500 });

export default function task(context) {
  const { jobName, trigger, step, index } = context.params;
  const job = ["jobs", jobName, trigger];
  const parts = [...job, "steps", step, "tasks", index];
  const logs = new Map();

  function logOf(attempt, stream) {
    const key = `${attempt} ${stream}`;
    if (!logs.has(key)) logs.set(key, logState());
    return logs.get(key);
  }

  return function render() {
    const { run, stream: chosen, attempt: wanted } = context.query;
    const path = url(parts, { run });
    const resource = context.live(path, { every: 4 });
    const message = pending(resource, "the task");
    if (message) return message;
    const data = resource.data;
    const attempt = Number(wanted || data.attempt || 0);
    const stream = chosen || (data.stderr && !data.stdout ? "stderr" : "stdout");
    const state = logOf(attempt, stream);
    const logPath = url([...parts, "logs"], { stream, offset: state.offset, attempt });
    context.keepOnly([path, logPath, WORKERS]);
    const workers = context.live(WORKERS, { every: 300 });
    const nameOf = (id) => workers.data?.items.find((worker) => worker.id === id)?.name || id || "–";
    if (attempt) {
      const part = context.live(logPath, { every: state.complete ? 60 : 4 });
      if (part.data && append(state, part.data)) context.redraw();
    }
    return [
      header(data, job, run, nameOf),
      h(
        "div",
        { class: "task-columns" },
        h("section", { class: "card log-card" }, h("h2", {}, "Log"), h("div", { class: "pad" }, attempt ? [streams(stream, attempt, data), log(state, { label: `${stream} of attempt ${attempt}`, redraw: context.redraw })] : h("p", { class: "hint" }, "No attempt has started."))),
        h("div", { class: "side" }, h("section", { class: "card scroll-x", tabindex: "0" }, h("h2", {}, "Attempts"), attempts(data, nameOf)), files(data), h("section", { class: "card" }, h("h2", {}, "Parameters"), keyValues(data.params)), data.output !== null && data.output !== undefined && h("section", { class: "card" }, h("h2", {}, "Output"), h("pre", { class: "pad" }, show(data.output)))),
      ),
    ];
  };
}

function header(task, job, run, nameOf) {
  const back = { run, tab: "tasks", step: task.stepName };
  const { index, total } = task.sharding;
  const neighbour = (at, text, name) => h("a", { class: "button", href: href([...job, "steps", task.stepName, String(at)], { run }), "aria-label": text }, glyph(name));
  return h(
    "div",
    { class: "job-head" },
    h("p", { class: "crumbs" }, h("a", { href: "#/jobs" }, "Jobs"), " / ", h("a", { href: href(job, { run }) }, `${task.jobName} ${task.trigger}`), " / ", h("a", { href: href(job, back) }, task.stepName)),
    h(
      "div",
      { class: "title" },
      h("h1", {}, `Task ${index}`, h("span", { class: "muted" }, ` of ${number(total)}`)),
      badge(task.state),
      h("div", { class: "actions" }, task.rank > 0 && neighbour(index - 1, "Previous task", "left"), task.rank < total - 1 && neighbour(index + 1, "Next task", "right"), controls(task)),
    ),
    h(
      "dl",
      { class: "facts" },
      [["Attempt", String(task.attempt)], ["Worker", nameOf(task.worker)], ["Started", clock(task.executeTime)], ["Duration", task.executeTime ? duration(between(task.executeTime, task.completedTime)) : "–"], task.exitCode !== null && task.exitCode !== undefined && ["Exit code", String(task.exitCode)], task.pack && ["Range", `${task.pack.start} to ${task.pack.end}`], task.progress && ["Progress", `${task.progress.percent ?? ""} % ${task.progress.message || ""}`]]
        .filter(Boolean)
        .map(([name, value]) => h("div", { key: name }, h("dt", {}, name), h("dd", {}, value))),
    ),
    (task.message || task.reason) && h("div", { class: "card why tone-failed" }, h("p", {}, [task.reason, task.message].filter(Boolean).join(": "))),
  );
}

function controls(task) {
  const job = { jobName: task.jobName, trigger: task.trigger };
  const [index, stepName] = [task.sharding.index, task.stepName];
  const name = `Task ${index} of ${stepName}`;
  if (!allows("operate", { definition: task.jobName })) return null;
  const button = (label, icon, danger, title, route, body, done) => h("button", { key: label, class: danger ? "danger" : "", onclick: () => confirmPart(title, job, route, body, { done, danger }) }, glyph(icon), label);
  if (LIVE.has(task.state)) {
    return [
      button("Force success", "check", false, "Force success", "force", { stepName, index, state: "SUCCESS" }, "The task is forced to SUCCESS."),
      button("Kill", "stop", true, "Kill the task", "kill", { stepName, index }, `${name} is killed.`),
    ];
  }
  return task.state === "SUCCESS" ? null : button("Rerun", "redo", false, "Rerun the task", "rerun", { steps: [stepName], shards: [index] }, "The run has started.");
}

function streams(stream, attempt, task) {
  const numbers = task.attempts.length ? [...new Set(task.attempts.map((each) => each.attempt))] : [attempt];
  return h(
    "div",
    { class: "filters" },
    h("div", { class: "chips", role: "group", "aria-label": "Stream" }, ["stdout", "stderr"].map((name) => h("button", { key: name, class: "chip", "aria-pressed": name === stream ? "true" : "false", onclick: () => setQuery({ stream: name }) }, name))),
    numbers.length > 1 && h("select", { "aria-label": "Attempt", onchange: (event) => setQuery({ attempt: event.target.value }) }, numbers.map((each) => h("option", { value: String(each), selected: each === attempt }, `Attempt ${each}`))),
  );
}

const attempts = (task, nameOf) =>
  h("table", { class: "table-attempts" }, h("thead", {}, h("tr", {}, ["", "Worker", "Started", "Duration", "Result"].map((name) => h("th", { scope: "col" }, name || h("span", { class: "visually-hidden" }, "Attempt"))))), h("tbody", {}, task.attempts.map((each, at) => h("tr", { key: at }, h("td", {}, String(each.attempt)), h("td", { class: "nowrap" }, nameOf(each.worker)), h("td", { class: "nowrap muted" }, clock(each.startTime)), h("td", { class: "nowrap" }, each.endTime || (task.state === "RUNNING" && each.attempt === task.attempt) ? duration(between(each.startTime, each.endTime)) : "–"), h("td", {}, each.outcome === "success" ? badge("SUCCESS") : each.outcome || each.reason ? h("span", { class: "error" }, [each.reason || each.outcome, each.message].filter(Boolean).join(", ")) : badge("RUNNING"))))));

function files(task) {
  const made = new Map(task.files.map((file) => [file.name, file]));
  const rows = [...task.inputs.map((file) => ["input", file]), ...task.outputs.map((file) => ["output", file]), ...task.files.filter((file) => !task.outputs.some((each) => each.name === file.name)).map((file) => ["output", file])];
  if (!rows.length) return null;
  return h("section", { class: "card scroll-x", tabindex: "0" }, h("h2", {}, "Inputs and outputs"), h("table", {}, h("tbody", {}, rows.map(([kind, file], at) => h("tr", { key: at }, h("td", { class: "muted" }, kind), h("td", {}, file.name, file.origin && h("small", { class: "muted" }, ` from ${file.origin}`)), h("td", { class: "number" }, made.has(file.name) ? bytes(made.get(file.name).size) : ""))))));
}
