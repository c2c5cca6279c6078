// A run beside another: what took longer, and what failed that did not before.

import { h } from "../core/vdom.js";
import { url } from "../core/api.js";
import { between, clock, duration } from "../core/format.js";
import { href, setQuery } from "../core/router.js";
import { badge } from "../core/states.js";
import { empty, pending } from "../parts/messages.js";

export const title = ({ jobName, trigger }) => `Compare ${jobName} ${trigger}`;

export default function compare(context) {
  const { jobName, trigger } = context.params;
  const parts = ["jobs", jobName, trigger];
  return function render() {
    const one = context.live(url(parts), { every: 10 });
    const others = context.live(url(["jobs"], { jobName, limit: 50 }), { every: 30 });
    const message = pending(one, "the job") || pending(others, "other jobs");
    if (message) return message;
    const choices = candidates(one.data, others.data.items);
    const chosen = choices.find(({ id }) => id === context.query.with) || choices[0];
    const other = chosen && context.live(chosen.path, { every: 30 });
    return [
      h("p", { class: "crumbs" }, h("a", { href: "#/jobs" }, "Jobs"), " / ", h("a", { href: href(parts) }, `${jobName} ${trigger}`)),
      h("div", { class: "title" }, h("h1", {}, `${jobName} ${trigger}`), badge(one.data.state), choices.length > 0 && h("label", { class: "check" }, "compared with", h("select", { onchange: (event) => setQuery({ with: event.target.value }) }, choices.map((choice) => h("option", { value: choice.id, selected: choice === chosen }, choice.label))))),
      !chosen ? h("div", { class: "card" }, empty("There is no other run to compare with.")) : pending(other, "the other run") || table(one.data, other.data, chosen),
    ];
  };
}

/** Earlier runs of the same job, then other triggers, the one before this first. */
function candidates(job, items) {
  const runs = Array.from({ length: job.run - 1 }, (_, index) => job.run - 1 - index).map((run) => ({ id: `run ${run}`, label: `run ${run} of this job`, path: url(["jobs", job.jobName, job.trigger], { run }) }));
  const others = items.filter((each) => each.id !== job.id);
  const before = others.filter((each) => each.jid < job.jid);
  return [...runs, ...[...before, ...others.filter((each) => each.jid > job.jid)].map((each) => ({ id: each.trigger, label: `${each.trigger} (${each.state}, ${clock(each.createTime, { seconds: false })})`, path: url(["jobs", each.jobName, each.trigger]) }))];
}

const took = (step) => (step?.startedTime ? between(step.startedTime, step.completedTime) : null);

function table(job, other, chosen) {
  const before = new Map(other.steps.map((step) => [step.stepName, step]));
  const names = [...new Set([...job.steps, ...other.steps].map((step) => step.stepName))];
  const rows = names.map((name) => {
    const [now, then] = [job.steps.find((step) => step.stepName === name), before.get(name)];
    const delta = took(now) !== null && took(then) !== null ? took(now) - took(then) : null;
    const broke = now && ["FAILED", "KILLED"].includes(now.state) && then && !["FAILED", "KILLED"].includes(then.state);
    return { name, now, then, delta, broke };
  });
  rows.sort((a, b) => Number(b.broke) - Number(a.broke) || Math.abs(b.delta || 0) - Math.abs(a.delta || 0));
  const broken = rows.filter((row) => row.broke).map((row) => row.name);
  const slower = rows.filter((row) => row.delta > 1000 && row.delta > 0.2 * took(row.then));
  return [
    h("div", { class: "card why" }, h("p", {}, broken.length ? `Failed here and not in ${chosen.label}: ${broken.join(", ")}.` : `Nothing failed here that did not fail in ${chosen.label}.`), h("p", {}, slower.length ? `Took longer: ${slower.map((row) => `${row.name} (+${duration(row.delta)})`).join(", ")}.` : "No step took notably longer.")),
    h(
      "div",
      { class: "card scroll-x", tabindex: "0" },
      h("table", {}, h("thead", {}, h("tr", {}, ["Step", "State", "Before", "Duration", "Before", "Difference", "Failed tasks", "Before"].map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, rows.map((row) => h("tr", { key: row.name, class: row.broke ? "broke" : "" }, h("td", {}, row.name), h("td", {}, row.now ? badge(row.now.state) : "–"), h("td", {}, row.then ? badge(row.then.state) : "–"), h("td", { class: "nowrap" }, duration(took(row.now))), h("td", { class: "nowrap muted" }, duration(took(row.then))), h("td", { class: `nowrap ${row.delta > 1000 ? "error" : ""}` }, row.delta === null ? "–" : `${row.delta < 0 ? "−" : "+"}${duration(Math.abs(row.delta))}`), h("td", {}, String(row.now?.counts?.FAILED || 0)), h("td", { class: "muted" }, String(row.then?.counts?.FAILED || 0)))))),
    ),
  ];
}
