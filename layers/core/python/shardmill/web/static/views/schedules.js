// The list of schedules, with the next and the last firing of each.

import { h } from "../core/vdom.js";
import { url } from "../core/api.js";
import { clock, plural, relative } from "../core/format.js";
import { href } from "../core/router.js";
import { badge } from "../core/states.js";
import { empty, pending } from "../parts/messages.js";

export const title = () => "Schedules";

export const outcomeBadge = (firing) => badge({ started: "SUCCESS", exists: "SUCCESS", skipped: "SKIPPED", missed: "FAILED", late: "SUSPENDED", refused: "FAILED" }[firing.outcome] || "INIT", firing.outcome);

export default function schedules(context) {
  return function render() {
    const resource = context.live(url(["schedules"], { limit: 500 }), { every: 15 });
    const message = pending(resource, "the schedules");
    if (message) return message;
    const items = [...resource.data.items].sort((a, b) => (a.nextTime || "9").localeCompare(b.nextTime || "9"));
    return [
      h("div", { class: "title" }, h("h1", {}, "Schedules"), h("span", { class: "muted" }, plural(items.length, "schedule"))),
      h("div", { class: "card scroll-x", tabindex: "0" }, items.length ? table(items) : empty("There are no schedules.", h("p", { class: "hint" }, "Add one to a ", h("a", { href: "#/definitions" }, "definition"), ", or with the command ", h("code", {}, "shardmill schedule save")))),
    ];
  };
}

const table = (items) =>
  h("table", { class: "table-schedules" }, h("thead", {}, h("tr", {}, ["Job", "Schedule", "Times", "Zone", "Next", "Last"].map((name) => h("th", { scope: "col", class: name === "Zone" ? "hide-small" : "" }, name)))), h("tbody", {}, items.map((item) => h("tr", { key: `${item.jobName}/${item.scheduleId}` }, h("td", {}, h("a", { href: href(["definitions", item.jobName]) }, item.jobName)), h("td", {}, h("a", { href: href(["schedules", item.jobName, item.scheduleId]) }, item.scheduleId)), h("td", {}, item.meaning || expression(item)), h("td", { class: "muted hide-small" }, item.timezone || "UTC"), h("td", { class: "nowrap" }, item.nextTime ? [clock(item.nextTime, { seconds: false }), h("span", { class: "muted" }, ` ${relative(item.nextTime)}`)] : h("span", { class: "muted" }, unplanned(item))), h("td", { class: "nowrap" }, item.history?.[0] ? [outcomeBadge(item.history[0]), h("span", { class: "muted" }, ` ${relative(item.history[0].firedTime)}`)] : h("span", { class: "muted" }, "–"))))));

export const expression = (item) => {
  if (item.cron) return item.cron;
  if (item.everySeconds) return `every ${item.everySeconds} s`;
  if (item.everyMonths) return `every ${item.everyMonths} months`;
  if (item.delaySeconds) return `${item.delaySeconds} s after the end`;
  return item.at ? `at ${clock(item.at)}` : `${item.times?.length ?? 0} times`;
};

/** Why a schedule has no next time, as text. */
export const unplanned = (item) => (!item.status ? "off" : item.awaitedJob ? "after the running job" : "no more");
