// The last hour as a chart: how many jobs ended, and how many were queued and running at each time. Suspended jobs are neither.

import { h } from "../core/vdom.js";
import { ms, number, plural } from "../core/format.js";

const BINS = 30;
const BIN_MS = 120_000;
const [WIDTH, HEIGHT, STEP] = [600, 96, 20];

/** Draw the chart from the jobs of the overview: those that ended within the hour, and the live ones. */
export function lastHour({ ended, endedMore, live }, now = Date.now()) {
  const jobs = [...ended, ...Object.values(live).flatMap(({ items }) => items)];
  const bins = Array.from({ length: BINS }, (_, at) => count(jobs, now - (BINS - at) * BIN_MS));
  const good = sum(bins, "good");
  const bad = sum(bins, "bad");
  const most = Math.max(...bins.map((bin) => bin.good + bin.bad), 1);
  const deepest = Math.max(...bins.map((bin) => Math.max(bin.queued, bin.running)), 1);
  const label = `In the last hour ${plural(good, "job")} succeeded and ${number(bad)} did not. At most ${number(Math.max(...bins.map(({ queued }) => queued)))} were queued and ${number(Math.max(...bins.map(({ running }) => running)))} running at once.`;
  return h(
    "div",
    { class: "last-hour" },
    h("figure", { role: "img", "aria-label": label }, h("figcaption", {}, h("strong", {}, "Ended"), h("span", {}, h("i", { class: "key good" }), `${number(good)} succeeded`), h("span", {}, h("i", { class: "key bad" }), `${number(bad)} did not`), endedMore && h("span", {}, "of the newest 500 jobs")), h("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none" }, bins.map((bin, at) => bars(bin, at, most)))),
    h("figure", { role: "img", "aria-label": "Jobs that waited and ran over the last hour" }, h("figcaption", {}, h("strong", {}, "Jobs"), h("span", {}, h("i", { class: "key running" }), `${number(bins.at(-1).running)} running`), h("span", {}, h("i", { class: "key queued" }), `${number(bins.at(-1).queued)} waiting to start`), h("span", {}, `most ${number(deepest)}`)), h("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none" }, h("path", { class: "running", d: area(bins, "running", deepest) }), h("path", { class: "queued", d: line(bins, "queued", deepest) }))),
    h("p", { class: "scale" }, h("span", {}, "60 m ago"), h("span", {}, "30 m"), h("span", {}, "now")),
  );
}

const sum = (bins, name) => bins.reduce((total, bin) => total + bin[name], 0);

/** The data of one bin: ends within it, and depths at its end. */
function count(jobs, from) {
  const to = from + BIN_MS;
  const bin = { good: 0, bad: 0, queued: 0, running: 0 };
  for (const job of jobs) {
    const [created, started, completed] = [ms(job.createTime), ms(job.startedTime), ms(job.completedTime)];
    if (completed !== null && completed >= from && completed < to) bin[job.state === "SUCCESS" ? "good" : "bad"] += 1;
    const left = job.state === "SUSPENDED" ? ms(job.updateTime) : completed;
    if (created >= to || (left !== null && left < to)) continue;
    if (started !== null && started < to) bin.running += 1;
    else bin.queued += 1;
  }
  return bin;
}

function bars({ good, bad }, at, most) {
  const size = (number) => ((HEIGHT - 6) * number) / most;
  return [h("rect", { key: `g${at}`, class: "good", x: at * STEP + 2, width: STEP - 4, y: HEIGHT - size(good), height: size(good) }), h("rect", { key: `b${at}`, class: "bad", x: at * STEP + 2, width: STEP - 4, y: HEIGHT - size(good + bad), height: size(bad) })];
}

const points = (bins, name, most) => bins.map((bin, at) => `${at === 0 ? 0 : at * STEP + STEP / 2} ${HEIGHT - 2 - ((HEIGHT - 8) * bin[name]) / most}`);
const line = (bins, name, most) => `M${points(bins, name, most).join("L")}L${WIDTH} ${HEIGHT - 2 - ((HEIGHT - 8) * bins.at(-1)[name]) / most}`;
const area = (bins, name, most) => `${line(bins, name, most)}V${HEIGHT}H0Z`;
