// The overview: live and failed jobs, problems that need attention, throughput, workers and coming firings.

import { h } from "../core/vdom.js";
import { action, url } from "../core/api.js";
import { between, clock, duration, number, plural, relative } from "../core/format.js";
import { href } from "../core/router.js";
import { icon, tone, word } from "../core/states.js";
import { lastHour } from "../charts/last_hour.js";
import { empty, pending } from "../parts/messages.js";
import { brief } from "../parts/sentences.js";
import { inUse } from "../parts/slots.js";

export const title = () => "Now";

const SHOWN = 8;
const URGENT = 5;
const NOTES = { RUNNING: "tasks run", QUEUED: "no task has started yet", WAITING: "for other jobs or a slot", SUSPENDED: "until they are resumed" };
const STUCK_MS = 120_000;

export default function now(context) {
  const state = { all: false };
  return function render() {
    const resource = context.live(url(["now"]), { every: 10 });
    const message = pending(resource, "the overview");
    if (message) return message;
    const data = resource.data;
    const urgent = attention(data);
    return [
      h("h1", {}, "Now"),
      h("div", { class: "tiles" }, ["RUNNING", "QUEUED", "WAITING", "SUSPENDED"].map((state) => tile(state, data.live[state], NOTES[state])), tile("FAILED", { items: data.failed, more: false }, "in the last 24 hours", "day")),
      (urgent.length > 0 || letters(data.deadLetters)) && attentionCard(context, data, urgent, state),
      h(
        "div",
        { class: "columns" },
        h("div", {}, h("section", { class: "card" }, h("h2", {}, "Running"), jobs(data.live.RUNNING.items, (job) => duration(between(job.startedTime)))), h("section", { class: "card" }, h("h2", {}, "Next firings"), firings(data.schedules))),
        h("div", {}, h("section", { class: "card" }, h("h2", {}, "Last hour"), lastHour(data)), h("section", { class: "card" }, h("h2", {}, "Workers"), groups(data.groups))),
      ),
    ];
  };
}

const tile = (state, { items, more }, note = "", since = "") =>
  h("a", { key: state, class: `tile card ${tone(state)}`, href: href(["jobs"], { state, since }) }, icon(state), h("strong", {}, `${number(items.length)}${more ? "+" : ""}`), h("span", {}, word(state)), h("small", {}, note));

function attentionCard(context, data, urgent, state) {
  const more = urgent.length - URGENT;
  const toggle = () => {
    state.all = !state.all;
    context.redraw();
  };
  return h(
    "section",
    { class: "card" },
    h("h2", {}, "Needs attention"),
    h(
      "ul",
      { class: "list" },
      letters(data.deadLetters),
      urgent.slice(0, state.all ? urgent.length : URGENT).map((job, at) => h("li", { key: job.id, class: "attention" }, icon(job.state, job.state), link(job), h("span", { class: "when muted", title: clock(job.updateTime) }, job.late && h("strong", { class: "error" }, "late, "), relative(job.updateTime)), h("span", { class: "muted" }, why(context, job, at)))),
      more > 0 && h("li", { key: "more" }, h("button", { class: "link", "aria-expanded": state.all ? "true" : "false", onclick: toggle }, state.all ? "Show fewer" : `Show ${number(more)} more`)),
    ),
  );
}

/** Jobs that need attention: late and stuck ones first, then those that were suspended or failed, the newest first. */
const attention = (data) => {
  const late = Object.values(data.live).flatMap(({ items }) => items).filter((job) => job.late);
  const stuck = data.live.QUEUED.items.filter((job) => Date.now() - Date.parse(job.updateTime) > STUCK_MS);
  const ended = [...data.live.SUSPENDED.items, ...data.failed].sort((a, b) => b.updateTime.localeCompare(a.updateTime));
  const found = [...late, ...stuck, ...ended];
  return [...new Map(found.map((job) => [job.id, job])).values()];
};

/** A line about the dead letters, if there are any. */
function letters(count) {
  if (!count || (!count.stored && !count.new)) return null;
  const text = count.stored ? `${plural(count.stored, "dead letter")}${count.new ? ", and new ones" : ""}` : "New dead letters";
  return h("li", { key: "letters", class: "attention" }, icon("FAILED", "dead letters"), h("a", { href: "#/dead-letters" }, text), h("span", { class: "muted" }, "Messages or events failed in every attempt. Fix the cause, then redrive or delete them."));
}

/** Why a job needs attention: its notes, or for the first of them the first sentences of `why`. */
function why(context, job, at) {
  const explained = at < 4 ? context.live(action(["jobs", job.jobName, job.trigger], "explain"), { every: 60 }).data : null;
  return brief(explained?.sentences || [job.notes || word(job.state)], job);
}

const link = (job) => h("a", { href: href(["jobs", job.jobName, job.trigger]) }, job.jobName, " ", h("span", { class: "mono" }, job.trigger));

const jobs = (items, detail) =>
  items.length ? h("ul", { class: "list" }, items.slice(0, SHOWN).map((job) => h("li", { key: job.id }, icon(job.state, job.state), link(job), h("span", { class: "muted" }, detail(job)))), items.length > SHOWN && h("li", {}, h("a", { href: "#/jobs?state=RUNNING" }, `${items.length - SHOWN} more`))) : empty("No job is running.", h("a", { href: "#/definitions" }, "Submit one"));

const groups = (items) =>
  h("ul", { class: "list" }, items.map((group) => h("li", { key: group.name }, group.suspended ? icon("SUSPENDED", "suspended") : icon(group.kind === "lambda" || group.online ? "SUCCESS" : "FAILED", group.online ? "online" : "no worker"), h("a", { href: "#/workers" }, group.name), h("span", { class: "muted" }, group.suspended ? `suspended ${group.suspended}` : group.kind === "lambda" ? "Lambda" : group.online ? `${plural(group.online, "worker")}, ${inUse(group.held, group.slots)}` : "no worker online"))));

const firings = (items) =>
  items.length ? h("ul", { class: "list" }, items.slice(0, SHOWN).map((item) => h("li", { key: `${item.jobName}/${item.scheduleId}` }, h("a", { href: href(["schedules", item.jobName, item.scheduleId]) }, `${item.jobName} ${item.scheduleId}`), h("span", { class: "muted" }, `${clock(item.nextTime, { seconds: false })}, ${Date.parse(item.nextTime) > Date.now() ? relative(item.nextTime) : "due"}`)))) : empty("Nothing is scheduled.");
