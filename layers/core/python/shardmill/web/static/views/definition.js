// A definition: its graph, recent runs, document, versions and their differences.

import { h } from "../core/vdom.js";
import { action, del, post, url } from "../core/api.js";
import { clock, number, plural, relative } from "../core/format.js";
import { refreshAll } from "../core/live.js";
import { go, href, setQuery } from "../core/router.js";
import { allows } from "../core/permissions.js";
import { badge } from "../core/states.js";
import { confirm } from "../actions/confirm.js";
import { addSchedule } from "../actions/schedule_form.js";
import { graph, graphState } from "../charts/graph.js";
import { runsGrid } from "../charts/runs_grid.js";
import { documentOf, stepNode } from "../parts/definition_document.js";
import { diff } from "../parts/diff.js";
import { glyph } from "../parts/icons.js";
import { empty, pending } from "../parts/messages.js";
import { pagesState } from "../parts/pages.js";
import { tabs } from "../parts/tabs.js";
import { expression, unplanned } from "./schedules.js";

export const title = ({ jobName }) => jobName;

const TABS = [["runs", "Runs"], ["graph", "Graph"], ["document", "Document"], ["versions", "Versions"], ["schedules", "Schedules"]];

export default function definition(context) {
  const { jobName } = context.params;
  const parts = ["definitions", jobName];
  const state = graphState();
  const pages = pagesState();
  return function render() {
    const resource = context.live(url(parts, { version: context.query.version }), { every: 20 });
    const message = pending(resource, "the definition");
    if (message) return message;
    const chosen = TABS.some(([id]) => id === context.query.tab) ? context.query.tab : "runs";
    const define = resource.data;
    const content = { runs: () => runsGrid(context, jobName, pages), graph: () => h("div", { class: "card" }, graph(state, define.steps.map(stepNode), { label: "Graph of the steps", source: define })), document: () => h("pre", { class: "card document", tabindex: "0" }, documentOf(define)), versions: () => versions(context, parts, define), schedules: () => schedules(context, jobName) };
    return [header(define, parts, nextRun(context, jobName)), tabs("Parts of the definition", TABS, chosen), h("section", { key: chosen, "aria-label": chosen }, content[chosen]())];
  };
}

/** When the next job of the definition starts by a schedule, as text. */
function nextRun(context, jobName) {
  const items = context.live(url(["schedules", jobName]), { every: 30 }).data?.items;
  if (!items) return null;
  const next = items.map((item) => item.nextTime).filter(Boolean).sort()[0];
  return next ? `${clock(next, { seconds: false })} (${relative(next)})` : "not scheduled";
}

function header(define, parts, next) {
  const toggle = () => {
    const on = Boolean(define.suspended);
    confirm(on ? "Resume the definition" : "Suspend the definition", {
      lines: on ? [`New jobs of ${define.jobName} start again. Its schedules handle the times they missed according to their catchUp.`] : [`No new job of ${define.jobName} starts, and its schedules wait.`, "Jobs that are running continue."],
      button: on ? "Resume" : "Suspend", done: on ? "The definition is resumed." : "The definition is suspended.", danger: !on,
      run: async (reason) => {
        await post(action(parts, on ? "resume" : "suspend"), reason);
        refreshAll();
      },
    });
  };
  const mine = { definition: define.jobName, application: define.appName || "" };
  const buttons = [
    allows("submit", mine) && h("a", { class: "button primary", href: href([...parts, "submit"]) }, glyph("play"), "Submit a job"),
    allows("define", mine) && h("a", { class: "button", href: href([...parts, "edit"]) }, glyph("definitions"), "Edit"),
    allows("operate", mine) && h("button", { onclick: toggle }, glyph(define.suspended ? "play" : "pause"), define.suspended ? "Resume" : "Suspend"),
    allows("define", mine) && h("button", { class: "danger", onclick: () => remove(define, parts) }, glyph("trash"), "Delete"),
  ];
  return h(
    "div",
    { class: "job-head" },
    h("p", { class: "crumbs" }, h("a", { href: "#/definitions" }, "Definitions")),
    h("div", { class: "title" }, h("h1", {}, define.jobName), define.suspended && badge("SUSPENDED", define.suspended), h("div", { class: "actions" }, buttons)),
    define.description && h("p", {}, define.description),
    h("dl", { class: "facts" }, [["Version", String(define.version)], ["Steps", number(define.steps.length)], ["Changed", clock(define.updateTime)], ["By", define.updateUser], next && ["Next run", next], define.appName && ["Application", define.appName]].filter(Boolean).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
  );
}

const remove = (define, parts) =>
  confirm("Delete the definition", {
    lines: [`${define.jobName} is deleted: no new job of it can be submitted. Its jobs are kept.`, "This is rejected while a schedule starts it or another definition depends on it."],
    button: "Delete", done: "The definition is deleted.", danger: true, reason: false,
    run: async () => {
      await del(url(parts));
      go("#/definitions");
    },
  });

function versions(context, parts, define) {
  const resource = context.live(url([...parts, "versions"], { limit: 100 }), { every: 30 });
  const message = pending(resource, "the versions");
  if (message) return message;
  const items = resource.data.items;
  const to = Number(context.query.to || items[0]?.version);
  const from = Number(context.query.from || items.find((item) => item.version < to)?.version || to);
  const [before, after] = [from, to].map((version) => context.live(url(parts, { version }), { every: 300 }));
  const choice = (name, label, value) => h("label", { class: "check" }, label, h("select", { onchange: (event) => setQuery({ [name]: event.target.value }) }, items.map((item) => h("option", { value: String(item.version), selected: item.version === value }, `Version ${item.version}`))));
  return h(
    "div",
    { class: "grid-2" },
    h("section", { class: "card scroll-x", tabindex: "0" }, h("table", {}, h("thead", {}, h("tr", {}, ["Version", "Saved", "By", "Steps"].map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, items.map((item) => h("tr", { key: item.version }, h("td", {}, h("a", { href: href(parts, { version: item.version, tab: "document" }) }, `Version ${item.version}`), item.version === define.version && h("span", { class: "muted" }, " shown")), h("td", { class: "nowrap" }, clock(item.updateTime)), h("td", {}, item.updateUser), h("td", {}, String(item.stepCount))))))),
    h("section", { class: "card" }, h("h2", {}, "Difference"), h("div", { class: "pad filters" }, choice("from", "From", from), choice("to", "to", to)), before.data && after.data ? diff(documentOf(before.data), documentOf(after.data)) : pending(before.data ? after : before, "the versions")),
  );
}

function schedules(context, jobName) {
  const resource = context.live(url(["schedules", jobName]), { every: 30 });
  const message = pending(resource, "the schedules");
  if (message) return message;
  const { items } = resource.data;
  const add = allows("define", { definition: jobName }) && h("button", { onclick: () => addSchedule(jobName) }, glyph("plus"), "Add a schedule");
  if (!items.length) return h("div", { class: "card" }, empty("It has no schedules: its jobs start when somebody submits them.", add));
  return h("div", { class: "card" }, h("ul", { class: "list" }, items.map((item) => h("li", { key: item.scheduleId }, h("a", { href: href(["schedules", jobName, item.scheduleId]) }, item.scheduleId), h("span", {}, item.meaning || expression(item)), h("span", { class: "muted" }, item.nextTime ? `next ${clock(item.nextTime)}` : unplanned(item))))), add && h("p", {}, add));
}
