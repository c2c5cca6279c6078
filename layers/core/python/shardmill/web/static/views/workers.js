// Workers by group, with their state and tasks, and actions to suspend, drain or remove them.

import { h } from "../core/vdom.js";
import { action, del, post, url } from "../core/api.js";
import { duration, number, plural, relative } from "../core/format.js";
import { refreshAll } from "../core/live.js";
import { allows } from "../core/permissions.js";
import { badge } from "../core/states.js";
import { confirm } from "../actions/confirm.js";
import { empty, pending } from "../parts/messages.js";
import { inUse } from "../parts/slots.js";

export const title = () => "Workers";

const STATUS = ["Offline", "Draining", "Disconnected", "Online"];
const TONES = ["KILLED", "SUSPENDED", "FAILED", "SUCCESS"];

export default function workers(context) {
  return function render() {
    const groups = context.live(url(["groups"], { limit: 200 }), { every: 15 });
    const found = context.live(url(["workers"], { limit: 500 }), { every: 8 });
    const message = pending(groups, "the groups") || pending(found, "the workers");
    if (message) return message;
    return [
      h("div", { class: "title" }, h("h1", {}, "Workers"), h("span", { class: "muted" }, plural(found.data.items.filter((worker) => worker.status === 3).length, "worker online", "workers online")), allows("operate") && h("div", { class: "actions" }, everyGroup(groups.data.items))),
      groups.data.items.map((group) => card(group, found.data.items.filter((worker) => worker.groups.includes(group.name)))),
    ];
  };
}

/** Suspend all groups at once, or end that suspension. */
function everyGroup(groups) {
  const all = groups.length > 0 && groups.every((group) => group.suspended);
  const name = all ? "resume" : "suspend";
  return h("button", { onclick: () => confirm(all ? "Resume all groups" : "Suspend all groups", { lines: [all ? "The groups lease tasks again, except those that were suspended one by one." : `No task is leased by any of the ${plural(groups.length, "group")} or by groups created later, until all are resumed. Running tasks continue.`], button: all ? "Resume all" : "Suspend all", done: all ? "All groups are resumed." : "All groups are suspended.", danger: !all, run: async (reason) => {
    await post(`${url(["groups"])}:${name}`, reason);
    refreshAll();
  } }) }, all ? "Resume all groups" : "Suspend all groups");
}

function card(group, members) {
  const slots = members.filter((worker) => worker.status === 3).reduce((sum, worker) => sum + worker.slots, 0);
  const held = members.reduce((sum, worker) => sum + worker.remainTasks, 0);
  return h(
    "section",
    { key: group.name, class: "card scroll-x", tabindex: "0" },
    h("h2", { class: "title" }, group.name, h("span", { class: "muted plain" }, group.kind === "lambda" ? "served by Lambda" : slots ? inUse(held, slots) : "no worker online"), group.suspended && badge("SUSPENDED", group.suspended), h("span", { class: "spacer" }), allows("operate", { groups: [group.name] }) && toggle(["groups", group.name], `group ${group.name}`, Boolean(group.suspended), "Its tasks are not leased until it is resumed. Running tasks continue.")),
    members.length ? table(members) : group.kind === "lambda" ? null : empty("No worker has registered for this group.", h("p", { class: "hint" }, `Start one with the command: shardmill worker --group ${group.name}`)),
  );
}

const table = (members) =>
  h("table", { class: "members" }, h("thead", {}, h("tr", {}, ["Worker", "Status", "Tasks", "Completed", "Failed", "Compute time", "Last seen", ""].map((name) => h("th", { scope: "col" }, name || h("span", { class: "visually-hidden" }, "Actions"))))), h("tbody", {}, members.map(row)));

function row(worker) {
  const suspended = worker.activity === "suspended";
  return h(
    "tr",
    { key: worker.id },
    h("td", {}, worker.name, h("br", {}), h("small", { class: "muted hide-small" }, worker.host)),
    h("td", {}, suspended ? badge("SUSPENDED", worker.notes || "Suspended") : badge(TONES[worker.status], `${STATUS[worker.status]}${worker.status === 3 ? `, ${worker.activity}` : ""}`)),
    h("td", { title: inUse(worker.remainTasks, worker.slots) }, `${Math.min(worker.remainTasks, worker.slots)} / ${worker.slots}`, worker.remainTasks > worker.slots && h("small", { class: "muted" }, ` + ${number(worker.remainTasks - worker.slots)}`)),
    h("td", {}, number(worker.totalCompleted)),
    h("td", {}, number(worker.totalFailed)),
    h("td", { class: "nowrap" }, duration(worker.computeTime * 1000)),
    h("td", { class: "nowrap muted" }, relative(worker.updateTime)),
    h("td", { class: "nowrap" }, h("div", { class: "buttons" }, allows("operate", { groups: worker.groups }) && (worker.status === 3 ? [toggle(["workers", worker.id], `worker ${worker.name}`, suspended, "It finishes its tasks and leases no more until it is resumed."), drain(worker)] : forget(worker)))),
  );
}

function send(parts, name) {
  return async (reason) => {
    await post(action(parts, name), reason);
    refreshAll();
  };
}

function toggle(parts, what, suspended, effect) {
  const name = suspended ? "resume" : "suspend";
  const label = suspended ? "Resume" : "Suspend";
  return h("button", { "aria-label": `${label} ${what}`, onclick: () => confirm(`${label} ${what}`, { lines: [suspended ? "It takes tasks again." : effect], button: label, done: `The ${what} is ${name}${suspended ? "d" : "ed"}.`, run: send(parts, name) }) }, label);
}

/** Remove a worker that is gone from the list. */
const forget = (worker) =>
  h("button", { "aria-label": `Forget worker ${worker.name}`, onclick: () => confirm(`Forget worker ${worker.name}`, { lines: [`${worker.name} is removed from the list with its totals. Tasks that it still holds run again on another worker.`], button: "Forget", done: `${worker.name} is removed.`, danger: true, reason: false, run: async () => {
    await del(url(["workers", worker.id]));
    refreshAll();
  } }) }, "Forget");

const drain = (worker) =>
  h("button", { "aria-label": `Drain worker ${worker.name}`, onclick: () => confirm(`Drain worker ${worker.name}`, { lines: [`It finishes its ${plural(worker.remainTasks, "task")}, leases no more, and exits.`], button: "Drain", done: `${worker.name} is draining.`, danger: true, run: send(["workers", worker.id], "drain") }) }, "Drain");
