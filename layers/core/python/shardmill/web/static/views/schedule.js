// A schedule: a calendar of past and coming runs, firing now, and backfills with a preview.

import { h } from "../core/vdom.js";
import { action, del, get, post, send, url } from "../core/api.js";
import { clock, number, plural, relative } from "../core/format.js";
import { refreshAll } from "../core/live.js";
import { go, href } from "../core/router.js";
import { allows } from "../core/permissions.js";
import { badge } from "../core/states.js";
import { confirm } from "../actions/confirm.js";
import { calendar } from "../charts/calendar.js";
import { bar } from "../charts/progress.js";
import { glyph } from "../parts/icons.js";
import { empty, pending } from "../parts/messages.js";
import { expression, outcomeBadge, unplanned } from "./schedules.js";

export const title = ({ jobName, id }) => `Schedule ${id} of ${jobName}`;

/** The fields of a schedule's document; an answer has others. */
const FIELDS = ["status", "cron", "everySeconds", "everyMonths", "delaySeconds", "at", "times", "timezone", "startDate", "endDate", "maxTimes", "overlap", "catchUp", "maxLatenessSeconds", "params", "steps", "priority", "triggerFormat"];

export default function schedule(context) {
  const { jobName, id } = context.params;
  const parts = ["schedules", jobName, id];
  return function render() {
    const resource = context.live(url(parts), { every: 10 });
    const message = pending(resource, "the schedule");
    if (message) return message;
    const coming = context.live(url([...parts, "next"], { count: 400 }), { every: 60 });
    const backfills = context.live(url([...parts, "backfills"]), { every: 10 });
    const data = resource.data;
    return [
      header(data, parts),
      h(
        "div",
        { class: "times-and-days" },
        h(
          "div",
          { class: "side" },
          h("section", { class: "card" }, h("h2", {}, "Calendar"), calendar(data.history || [], coming.data?.items || [], data.timezone || "UTC", jobName)),
          backfills.data?.items.length > 0 && h("section", { class: "card scroll-x", tabindex: "0" }, h("h2", {}, "Backfills"), list(backfills.data.items, parts)),
          h("section", { class: "card scroll-x", tabindex: "0" }, h("h2", {}, "Past firings"), history(data, jobName)),
        ),
        h("section", { class: "card scroll-x", tabindex: "0" }, h("h2", {}, "Coming times"), pending(coming, "the coming times") || (coming.data.items.length ? times(coming.data.items) : empty("No time is to come."))),
      ),
    ];
  };
}

/** Save the schedule with another status; the version that was read must still be the present one. */
const toggle = (data, parts) =>
  confirm(data.status ? "Turn off the schedule" : "Turn on the schedule", {
    lines: [data.status ? `${data.jobName} ${data.scheduleId} does not fire until it is turned on. Jobs that are running continue.` : `${data.jobName} ${data.scheduleId} fires again, from its next time on.`],
    button: data.status ? "Turn off" : "Turn on", done: data.status ? "The schedule is off." : "The schedule is on.", reason: false,
    run: async () => {
      const { data: saved, etag } = await send("GET", url(parts));
      const document = Object.fromEntries(Object.entries(saved).filter(([name, value]) => FIELDS.includes(name) && value !== null));
      await send("PUT", url(parts), { ...document, status: data.status ? 0 : 1 }, undefined, etag);
      refreshAll();
    },
  });

const remove = (data, parts) =>
  confirm("Delete the schedule", {
    lines: [`${data.jobName} ${data.scheduleId} is deleted and fires no more. Its jobs are kept.`],
    button: "Delete", done: "The schedule is deleted.", danger: true, reason: false,
    run: async () => {
      await del(url(parts));
      go("#/schedules");
    },
  });

function header(data, parts) {
  const mine = { definition: data.jobName };
  const fire = () =>
    confirm("Fire now", { lines: [`A job of ${data.jobName} starts now, with the parameters of this schedule.`, "The times of the schedule do not change."], button: "Fire now", done: "The job has started.", reason: false, run: async () => {
      const job = await post(action(parts, "fire"), {});
      go(href(["jobs", job.jobName, job.trigger]));
    } });
  return h(
    "div",
    { class: "job-head" },
    h("p", { class: "crumbs" }, h("a", { href: "#/schedules" }, "Schedules"), " / ", h("a", { href: href(["definitions", data.jobName]) }, data.jobName)),
    h("div", { class: "title" }, h("h1", {}, data.scheduleId), data.status ? badge("RUNNING", "on") : badge("SUSPENDED", "off"), h("div", { class: "actions" }, allows("submit", mine) && h("button", { onclick: fire }, glyph("play"), "Fire now"), allows("submit", mine) && h("button", { onclick: () => backfill(data, parts) }, glyph("redo"), "Backfill"), allows("define", mine) && [h("button", { onclick: () => toggle(data, parts) }, glyph(data.status ? "pause" : "play"), data.status ? "Turn off" : "Turn on"), h("button", { class: "danger", onclick: () => remove(data, parts) }, glyph("trash"), "Delete")])),
    h("p", {}, data.meaning || expression(data)),
    h("dl", { class: "facts" }, [["Expression", h("code", {}, expression(data))], ["Zone", data.timezone || "UTC"], ["Next", data.nextTime ? `${clock(data.nextTime)} (${relative(data.nextTime)})` : unplanned(data)], ["Overlap", data.overlap], ["Catch up", data.catchUp]].filter(([, value]) => value).map(([name, value]) => h("div", { key: name }, h("dt", {}, name), h("dd", {}, value)))),
  );
}

const times = (items) => h("ol", { class: "list times" }, items.slice(0, 12).map((item) => h("li", { key: item.utc }, h("span", {}, item.local.replace("T", " ")), h("span", { class: "muted" }, hereAndWhen(item)))));

/** A time in the browser's zone, if it differs from the schedule's zone, and the distance from now. */
function hereAndWhen({ local, utc }) {
  const here = clock(utc, { date: "always" });
  const same = local.replace("T", " ").startsWith(here);
  return same ? relative(utc) : `${here} here, ${relative(utc)}`;
}

const history = (data, jobName) =>
  data.history?.length
    ? h("table", {}, h("thead", {}, h("tr", {}, ["Time", "Outcome", "Job", "Reason"].map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, data.history.map((firing, at) => h("tr", { key: at }, h("td", { class: "nowrap" }, clock(firing.time), firing.until && h("span", { class: "muted" }, ` to ${clock(firing.until)}`)), h("td", {}, outcomeBadge(firing)), h("td", {}, firing.trigger && h("a", { href: href(["jobs", jobName, firing.trigger]) }, firing.trigger)), h("td", {}, firing.reason || "")))))
    : h("p", { class: "hint" }, "It has not fired yet.");

const list = (items, parts) =>
  h("table", { class: "table-backfills" }, h("thead", {}, h("tr", {}, ["Backfill", "State", "Jobs", "", "By", ""].map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, items.map((item) => h("tr", { key: item.number }, h("td", {}, `${item.number}, ${clock(item.createTime)}`), h("td", {}, badge({ RUNNING: "RUNNING", DONE: "SUCCESS", STOPPED: "KILLED" }[item.state], item.state.toLowerCase())), h("td", {}, `${number(item.success + item.failed + item.skipped)} / ${number(item.total)}`), h("td", { class: "bar-cell" }, bar({ SUCCESS: item.success + item.skipped, FAILED: item.failed, RUNNING: item.running }, item.total)), h("td", {}, item.submitUser), h("td", {}, item.state === "RUNNING" && allows("operate", { definition: parts[1] }) && h("button", { onclick: () => stop(item, parts) }, "Stop"))))));

const stop = (item, parts) =>
  confirm("Stop the backfill", { lines: [`${plural(item.waiting, "job")} will not start. ${plural(item.running, "running job")} continue.`], button: "Stop", done: "The backfill is stopped.", danger: true, reason: false, run: async () => {
    await post(`${url([...parts, "backfills", String(item.number)])}:stop`, {});
    refreshAll();
  } });

const today = (days) => new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10);

/** The form for a range of past times; it shows the times in the range before anything starts. */
function backfill(data, parts) {
  const form = { from: today(-7), to: today(0), parallel: "1", force: false, found: null, error: null, asked: "" };
  const content = () => ({ from: form.from, to: form.to, parallel: Number(form.parallel), force: form.force });
  const preview = async (redraw) => {
    const key = JSON.stringify(content());
    if (form.asked === key) return;
    Object.assign(form, { asked: key, found: null, error: null });
    const found = await post(`${action(parts, "backfill")}?dryRun=true`, content()).then((answer) => ({ found: answer }), (error) => ({ error }));
    if (form.asked !== key) return;
    Object.assign(form, found);
    redraw();
  };
  const input = (name, label, type, redraw) => h("div", { class: "field" }, h("label", { for: `backfill-${name}` }, label), h("input", { id: `backfill-${name}`, type, value: form[name], onchange: (event) => {
    form[name] = event.target.value;
    redraw();
  } }));
  return confirm("Backfill", {
    lines: () => (form.error ? [form.error.message, ...(form.error.faults || []).map((fault) => fault.message)] : form.found ? form.found.sentences : ["Asking what will happen."]),
    isReady: () => Boolean(form.found),
    fields: (redraw) => {
      preview(redraw);
      return [h("div", { class: "filters" }, input("from", "From", "date", redraw), input("to", "To, not included", "date", redraw), input("parallel", "At a time", "number", redraw)), h("label", { class: "check" }, h("input", { type: "checkbox", checked: form.force, onchange: (event) => {
        form.force = event.target.checked;
        redraw();
      } }), "Run times whose job has succeeded again")];
    },
    button: "Start the backfill", done: "The backfill has started.", reason: false,
    run: async () => {
      await post(action(parts, "backfill"), content());
      refreshAll();
    },
  });
}
