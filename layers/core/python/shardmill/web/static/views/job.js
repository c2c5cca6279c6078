// A job: its summary, the reason why it is not done, and a tab for each view of it.

import { h } from "../core/vdom.js";
import { action, url } from "../core/api.js";
import { between, clock, duration, relative } from "../core/format.js";
import { allows, ofJob } from "../core/permissions.js";
import { go, href, setQuery } from "../core/router.js";
import { badge, LIVE, tone } from "../core/states.js";
import { actionButtons, actionItems } from "../actions/actions.js";
import { progress, total } from "../charts/progress.js";
import { costTab } from "../job_tabs/cost.js";
import { durationsTab } from "../job_tabs/durations.js";
import { filesTab } from "../job_tabs/files.js";
import { ganttTab } from "../job_tabs/gantt.js";
import { graphTab } from "../job_tabs/graph.js";
import { historyTab } from "../job_tabs/history.js";
import { parametersTab } from "../job_tabs/parameters.js";
import { stepsTab } from "../job_tabs/steps.js";
import { tasksTab } from "../job_tabs/tasks.js";
import { valuesTab } from "../job_tabs/values.js";
import { glyph } from "../parts/icons.js";
import { menu } from "../parts/menu.js";
import { pending } from "../parts/messages.js";
import { paragraph, withoutRepeats } from "../parts/sentences.js";
import { tabs } from "../parts/tabs.js";

export const title = ({ jobName, trigger }) => `${jobName} ${trigger}`;

const SENTENCES = 4;
const TABS = [
  ["graph", "Graph", graphTab],
  ["steps", "Steps", stepsTab],
  ["timeline", "Timeline", ganttTab],
  ["tasks", "Tasks", tasksTab],
  ["durations", "Durations", durationsTab],
  ["files", "Files", filesTab],
  ["values", "Values", valuesTab],
  ["parameters", "Parameters", parametersTab],
  ["history", "History", historyTab],
  ["cost", "Cost", costTab],
];

export default function job(context) {
  const parts = ["jobs", context.params.jobName, context.params.trigger];
  const views = new Map();

  return function render() {
    const { run } = context.query;
    const path = url(parts, { run });
    const resource = context.live(path, { every: 3 });
    const newest = run ? context.live(url(parts), { every: 20 }) : resource;
    const message = pending(resource, "the job");
    if (message) return message;
    const data = resource.data;
    const chosen = TABS.find(([id]) => id === context.query.tab) || TABS[0];
    const explained = data.state === "SUCCESS" ? null : context.live(action(parts, "explain"), { every: 9 });
    if (!views.has(chosen[0])) views.set(chosen[0], chosen[2](context));
    const tab = { job: data, parts, run };
    context.keepOnly([path, newest.path, ...(explained ? [explained.path] : []), ...(views.get(chosen[0]).paths?.(tab) || [])]);
    return [
      header(data, newest.data?.run || data.run),
      why(data, explained?.data),
      tabs("Parts of the job", TABS.map(([id, label]) => [id, label]), chosen[0]),
      h("section", { key: chosen[0], class: `tab tab-${chosen[0]}`, "aria-label": chosen[1] }, views.get(chosen[0]).render(tab)),
    ];
  };
}

function header(job, latest) {
  const { counts, size } = total(job);
  return h(
    "div",
    { class: "job-head" },
    h("p", { class: "crumbs" }, h("a", { href: "#/jobs" }, "Jobs"), " / ", h("a", { href: href(["definitions", job.jobName]) }, job.jobName)),
    h(
      "div",
      { class: "title" },
      h("h1", {}, job.jobName, " ", h("span", { class: "mono" }, job.trigger)),
      badge(job.state),
      job.late && h("strong", { class: "error" }, "late"),
      runs(job, latest),
      h("div", { class: "actions" }, job.run === latest && actionButtons(job, ["resume", "rerun", ...(job.state === "SUCCESS" ? [] : ["rerunChanged"]), "start", "suspend", "kill"]), h("a", { class: "button", href: href(["jobs", job.jobName, job.trigger, "compare"]) }, glyph("compare"), "Compare"), menu("More", more(job, latest))),
    ),
    progress(counts, size),
    facts(job),
  );
}

/** Actions that are used too rarely to have a button of their own. */
function more(job, latest) {
  const again = allows("submit", ofJob(job)) && { id: "again", label: "Submit another job like this", icon: "plus", run: () => go(href(["definitions", job.jobName, "submit"], { like: job.trigger })) };
  return [again, ...(job.run === latest ? actionItems(job, [...(job.state === "SUCCESS" ? ["rerunChanged"] : []), "rerunAll", "recompute", "rerunDependents", "priority", "groups", "limits", "forceSuccess", "forceFailed", "remove"]) : [])];
}

function runs(job, latest) {
  if (latest < 2) return null;
  return h("select", { "aria-label": "Run", onchange: (event) => setQuery({ run: event.target.value }) }, Array.from({ length: latest }, (_, index) => h("option", { value: String(index + 1), selected: index + 1 === job.run }, `Run ${index + 1}`)));
}

function facts(job) {
  const took = job.startedTime ? duration(between(job.startedTime, job.completedTime || (LIVE.has(job.state) ? null : job.updateTime))) : "–";
  const entries = [
    ["Submitted", h("span", { title: relative(job.createTime) }, clock(job.createTime))],
    ["Duration", took],
    ["Owner", job.submitUser],
    ["Version", h("a", { href: href(["definitions", job.jobName], { version: job.definitionVersion }) }, String(job.definitionVersion))],
    ["Priority", String(job.priority)],
    ["Groups", (job.workerGroups || []).join(", ") || "–"],
    job.scheduleId && ["Schedule", h("a", { href: href(["schedules", job.jobName, job.scheduleId]) }, job.scheduleId)],
    job.dataTime && ["Data time", clock(job.dataTime, { date: "always" })],
    job.deadline && ["Deadline", clock(job.deadline)],
  ].filter(Boolean);
  return h("dl", { class: "facts" }, entries.map(([name, value]) => h("div", { key: name }, h("dt", {}, name), h("dd", {}, value))));
}

function why(job, explained) {
  if (job.state === "SUCCESS") return null;
  const sentences = withoutRepeats(explained?.sentences || (job.notes ? [job.notes] : ["Asking why it is not done."]));
  const [first, rest] = [sentences.slice(0, SENTENCES), sentences.slice(SENTENCES)];
  const line = (sentence) => paragraph(sentence, job);
  return h("div", { class: `card why ${tone(job.state)}`, role: "region", "aria-label": "Why" }, first.map(line), rest.length > 0 && h("details", {}, h("summary", {}, `${rest.length} more`), rest.map(line)));
}
