// The list of definitions.

import { h } from "../core/vdom.js";
import { url } from "../core/api.js";
import { clock, number, plural, relative } from "../core/format.js";
import { href, setQuery } from "../core/router.js";
import { allows } from "../core/permissions.js";
import { badge, icon } from "../core/states.js";
import { glyph } from "../parts/icons.js";
import { empty, pending } from "../parts/messages.js";

export const title = () => "Definitions";

const LESS = ["Description", "Changed", "By"];
const NUMBERS = ["Steps", "Version"];
/** The number of newest jobs that are searched for the last job of each definition. */
const RECENT = 500;

export default function definitions(context) {
  return function render() {
    const resource = context.live(url(["definitions"], { limit: 1000 }), { every: 20 });
    const message = pending(resource, "the definitions");
    if (message) return message;
    const recent = context.live(url(["jobs"], { limit: RECENT }), { every: 30 }).data;
    const last = new Map([...(recent?.items || [])].reverse().map((job) => [job.jobName, job]));
    const wanted = (context.query.q || "").toLowerCase();
    const items = resource.data.items.filter((item) => `${item.jobName} ${item.description || ""} ${item.appName || ""}`.toLowerCase().includes(wanted));
    const create = allows("define") && h("a", { class: "button", href: "#/new-definition" }, glyph("plus"), "New definition");
    return [
      h("div", { class: "title" }, h("h1", {}, "Definitions"), h("span", { class: "muted", role: "status" }, plural(items.length, "definition")), h("div", { class: "actions" }, create)),
      h("div", { class: "filters" }, h("input", { type: "search", "aria-label": "Search in definitions", placeholder: "Search name, description, application", value: context.query.q || "", oninput: (event) => setQuery({ q: event.target.value }, { replace: true }) })),
      h("div", { class: "card scroll-x", tabindex: "0" }, items.length ? table(items, last) : wanted ? empty("No definition matches.") : empty("There are no definitions yet. A definition describes the steps of a job.", create || null, h("p", { class: "hint" }, "Or save a file with the command ", h("code", {}, "shardmill define FILE")))),
    ];
  };
}

const lastJob = (job) => job && h("a", { class: "last-job", href: href(["jobs", job.jobName, job.trigger]), title: job.trigger }, icon(job.state, job.state), relative(job.createTime));

const table = (items, last) =>
  h(
    "table",
    { class: "table-definitions" },
    h("thead", {}, h("tr", {}, ["Name", "Last job", "Description", "Steps", "Version", "Changed", "By", ""].map((name) => h("th", { scope: "col", class: LESS.includes(name) ? "hide-small" : NUMBERS.includes(name) ? "number" : "" }, name || h("span", { class: "visually-hidden" }, "Actions"))))),
    h("tbody", {}, items.map((item) => h("tr", { key: item.jobName }, h("td", { class: "nowrap" }, h("a", { href: href(["definitions", item.jobName]) }, item.jobName), item.suspended && [" ", badge("SUSPENDED")]), h("td", { class: "nowrap" }, lastJob(last.get(item.jobName))), h("td", { class: "wide muted hide-small", title: item.description }, item.description || ""), h("td", { class: "number" }, number(item.stepCount)), h("td", { class: "number" }, String(item.version)), h("td", { class: "nowrap muted hide-small" }, clock(item.updateTime, { seconds: false })), h("td", { class: "muted hide-small" }, item.updateUser), h("td", {}, allows("submit", { definition: item.jobName, application: item.appName || "" }) && h("a", { class: "button", href: href(["definitions", item.jobName, "submit"]), "aria-label": `Submit ${item.jobName}` }, glyph("play"), "Submit"))))),
  );
