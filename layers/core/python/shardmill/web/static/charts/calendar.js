// A calendar of three months: past and coming runs of a schedule by day in its zone, with clock changes marked.

import { h } from "../core/vdom.js";
import { plural } from "../core/format.js";
import { href } from "../core/router.js";

const MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
const DAYS = ["Mo", "Tu", "We", "Th", "Fr", "Sa", "Su"];
const LEGEND = [["past", "fired"], ["bad", "a time without a job"], ["coming", "to come"], ["today", "today"], ["change", "clock change"]];
const BAD = ["missed", "refused", "late"];

export function calendar(history, coming, zone, jobName) {
  const format = dayIn(zone);
  const days = new Map();
  const at = (day) => days.get(day) || days.set(day, { past: [], coming: 0, bad: 0 }).get(day);
  for (const firing of history) {
    const day = at(format(new Date(firing.time)));
    day.past.push(firing);
    if (BAD.includes(firing.outcome)) day.bad += 1;
  }
  for (const item of coming) at(item.local.slice(0, 10)).coming += 1;
  const now = new Date();
  const months = [-1, 0, 1].map((offset) => new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + offset, 1)));
  return [h("div", { class: "calendar" }, months.map((month) => drawn(month, days, format(now), zone, jobName))), h("p", { class: "legend hint", "aria-hidden": "true" }, LEGEND.map(([name, text]) => h("span", { key: name }, name === "change" ? h("b", {}, "±") : h("i", { class: `day ${name}` }), text)))];
}

/** A function from a moment to its date in a zone. */
function dayIn(zone) {
  try {
    const format = new Intl.DateTimeFormat("en-CA", { timeZone: zone, year: "numeric", month: "2-digit", day: "2-digit" });
    return (moment) => format.format(moment);
  } catch {
    return (moment) => moment.toISOString().slice(0, 10);
  }
}

function drawn(month, days, today, zone, jobName) {
  const [year, number] = [month.getUTCFullYear(), month.getUTCMonth()];
  const length = new Date(Date.UTC(year, number + 1, 0)).getUTCDate();
  const blank = (month.getUTCDay() + 6) % 7;
  return h(
    "div",
    { key: `${year}-${number}`, class: "month" },
    h("h3", {}, `${MONTHS[number]} ${year}`),
    h("div", { class: "days" }, DAYS.map((name) => h("span", { class: "muted" }, name)), Array.from({ length: blank }, (_, index) => h("span", { key: `blank${index}` })), Array.from({ length }, (_, index) => cell(new Date(Date.UTC(year, number, index + 1)), days, today, zone, jobName))),
  );
}

function cell(date, days, today, zone, jobName) {
  const key = date.toISOString().slice(0, 10);
  const { past = [], coming = 0, bad = 0 } = days.get(key) || {};
  const change = offsetAt(zone, date.getTime() + 86_400_000) - offsetAt(zone, date.getTime());
  const parts = [past.length && plural(past.length, "firing"), bad && `${bad} of them without a job`, coming && `${coming} to come`, change && `the clock changes by ${change > 0 ? "+" : ""}${change / 60_000} minutes`].filter(Boolean);
  const label = `${key}${parts.length ? `: ${parts.join(", ")}` : ""}`;
  const trigger = past.find((firing) => firing.trigger)?.trigger;
  const classes = `day ${key === today ? "today" : ""} ${bad ? "bad" : past.length ? "past" : coming ? "coming" : ""}`;
  const content = [String(date.getUTCDate()), change ? h("b", { "aria-hidden": "true" }, "±") : null];
  return trigger ? h("a", { key, class: classes, title: label, "aria-label": label, href: href(["jobs", jobName, trigger]) }, content) : h("span", { key, class: classes, title: label, ...(parts.length ? { role: "img", "aria-label": label } : {}) }, content);
}

/** How far a zone is from UTC at a moment, in milliseconds. */
function offsetAt(zone, moment) {
  try {
    const parts = Object.fromEntries(formatter(zone).formatToParts(moment).map(({ type, value }) => [type, Number(value)]));
    return Date.UTC(parts.year, parts.month - 1, parts.day, parts.hour % 24, parts.minute) - Math.floor(moment / 60_000) * 60_000;
  } catch {
    return 0;
  }
}

const formatters = new Map();
function formatter(zone) {
  if (!formatters.has(zone)) formatters.set(zone, new Intl.DateTimeFormat("en", { timeZone: zone, hourCycle: "h23", year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric" }));
  return formatters.get(zone);
}
