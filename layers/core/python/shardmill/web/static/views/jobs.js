// The list of jobs: search, filters, and actions on selected jobs.

import { h } from "../core/vdom.js";
import { between, clock, duration, number, plural, relative } from "../core/format.js";
import { jobList } from "../core/job_list.js";
import { go, href, setQuery } from "../core/router.js";
import { allows, ofJob } from "../core/permissions.js";
import { badge, icon, JOB_STATES, LIVE, tone, word } from "../core/states.js";
import { confirmJobs } from "../actions/actions.js";
import { ACTIONS } from "../actions/job_actions.js";
import { glyph } from "../parts/icons.js";
import { empty, problem, waiting } from "../parts/messages.js";
import { listState, rows, rowsHead } from "../parts/rows.js";

export const title = () => "Jobs";

const SINCE = { hour: 3_600_000, day: 86_400_000, week: 7 * 86_400_000 };
const FILTERS = ["q", "name", "owner", "since", "state"];
const BULK = ["suspend", "resume", "kill", "rerun", "remove"];
const WIDE = "26px 100px minmax(140px, 1.2fr) minmax(150px, 1.3fr) 76px 80px minmax(80px, 0.8fr) minmax(0, 2.6fr)";
const SMALL = "26px 20px minmax(120px, 2fr) minmax(80px, 1fr) 72px";

export default function jobs(context) {
  const list = jobList(context);
  const state = listState();
  const selected = new Map();
  let memo = { key: "", source: null, found: [] };

  function matching(items, query) {
    const key = JSON.stringify([query.q, query.since]);
    if (memo.key === key && memo.source === items) return memo.found;
    const words = (query.q || "").toLowerCase().split(/\s+/).filter(Boolean);
    const from = query.since ? Date.now() - SINCE[query.since] : 0;
    const found = items.filter((job) => (!from || Date.parse(job.createTime) >= from) && words.every((each) => text(job).includes(each)));
    memo = { key, source: items, found };
    return found;
  }

  return function render() {
    const query = context.query;
    const answer = list.select({ state: query.state, jobName: query.name, submitUser: query.owner });
    const found = matching(answer.items, query);
    const small = innerWidth <= 760;
    const reachedEnd = answer.complete || (query.since && answer.items.length && Date.parse(answer.items.at(-1).createTime) < Date.now() - SINCE[query.since]);
    return [
      h("div", { class: "title" }, h("h1", {}, "Jobs"), h("span", { class: "muted", role: "status" }, `${number(found.length)}${reachedEnd ? "" : "+"} ${found.length === 1 ? "job" : "jobs"}`)),
      filters(query),
      selected.size > 0 ? bulk(selected, context.redraw) : null,
      answer.error ? problem(answer.error) : answer.loading ? waiting("Loading jobs") : null,
      !answer.loading && !answer.error && !found.length
        ? h("div", { class: "card" }, nothing(query, reachedEnd ? null : list.more))
        : null,
      found.length > 0
        ? h("div", { class: "card", key: "list" }, head(small, found, selected, context.redraw), rows(state, found, {
            label: "Jobs", columns: small ? SMALL : WIDE, redraw: context.redraw, more: reachedEnd ? null : list.more,
            open: (job) => go(href(["jobs", job.jobName, job.trigger])),
            row: (job) => (small ? smallRow : wideRow)(job, selected, context.redraw),
          }))
        : null,
    ];
  };
}

/** The message in place of jobs; `more` loads older ones, if there are any. */
function nothing(query, more) {
  if (more) return empty("No loaded job matches these filters.", h("button", { onclick: more }, "Search older jobs"));
  if (FILTERS.some((name) => query[name])) return empty("No job matches these filters.", h("a", { href: "#/jobs" }, "Clear the filters"));
  return empty("There are no jobs yet.", h("a", { href: "#/definitions" }, "Choose a definition and submit it"));
}

const text = (job) => (job.searchText ??= `${job.jobName} ${job.trigger} ${job.submitUser} ${job.scheduleId || ""} ${job.state} ${job.notes}`.toLowerCase());

function filters(query) {
  return h(
    "div",
    { class: "filters" },
    h("input", { type: "search", "aria-label": "Search in jobs", placeholder: "Search name, trigger, owner, notes", value: query.q || "", oninput: (event) => setQuery({ q: event.target.value }, { replace: true }) }),
    h("input", { type: "search", "aria-label": "Definition", placeholder: "Definition (whole name)", value: query.name || "", onchange: (event) => setQuery({ name: event.target.value.trim() }) }),
    h("input", { type: "search", "aria-label": "Owner", placeholder: "Owner", size: 10, value: query.owner || "", onchange: (event) => setQuery({ owner: event.target.value.trim() }) }),
    h("select", { "aria-label": "Submitted", value: query.since || "", onchange: (event) => setQuery({ since: event.target.value }) }, [["", "Any time"], ["hour", "Last hour"], ["day", "Last 24 hours"], ["week", "Last 7 days"]].map(([value, label]) => h("option", { value, selected: value === (query.since || "") }, label))),
    h("div", { class: "chips", role: "group", "aria-label": "State" }, JOB_STATES.map((state) => h("button", { key: state, class: `chip ${tone(state)}`, "aria-pressed": query.state === state ? "true" : "false", onclick: () => setQuery({ state: query.state === state ? "" : state }) }, icon(state), word(state)))),
  );
}

function head(small, found, selected, redraw) {
  const all = found.every((job) => selected.has(job.id));
  const toggle = () => {
    for (const job of found) all ? selected.delete(job.id) : selected.set(job.id, job);
    redraw();
  };
  const box = h("input", { type: "checkbox", "aria-label": `Select ${plural(found.length, "job")}`, checked: all, indeterminate: !all && selected.size > 0, onchange: toggle });
  return small ? rowsHead(SMALL, [box, "", "Job", "Trigger", "Time"]) : rowsHead(WIDE, [box, "State", "Job", "Trigger", "Submitted", h("span", { class: "number" }, "Duration"), "Owner", "Notes"]);
}

const check = (job, selected, redraw) =>
  h("input", { type: "checkbox", "aria-label": `Select ${job.jobName} ${job.trigger}`, checked: selected.has(job.id), onchange: (event) => {
    event.target.checked ? selected.set(job.id, job) : selected.delete(job.id);
    redraw();
  } });

const link = (job) => h("a", { href: href(["jobs", job.jobName, job.trigger]), title: job.jobName }, job.jobName);
const took = (job) => (job.startedTime ? duration(between(job.startedTime, job.completedTime || (LIVE.has(job.state) ? null : job.updateTime))) : "–");

const wideRow = (job, selected, redraw) => [
  check(job, selected, redraw),
  badge(job.state),
  h("span", {}, link(job), job.run > 1 && h("small", { class: "muted" }, ` run ${job.run}`)),
  h("span", { class: "mono", title: job.trigger }, job.trigger),
  h("span", { class: "muted", title: clock(job.createTime, { date: "always" }) }, relative(job.createTime)),
  h("span", { class: "number" }, took(job)),
  h("span", { class: "muted" }, job.scheduleId ? `schedule ${job.scheduleId}` : job.submitUser),
  h("span", { class: job.late ? "error" : "muted", title: job.notes }, job.late ? "late " : "", job.notes),
];

const smallRow = (job, selected, redraw) => [check(job, selected, redraw), icon(job.state, job.state), link(job), h("span", { class: "mono", title: job.trigger }, job.trigger), h("span", { class: "muted" }, relative(job.createTime))];

function bulk(selected, redraw) {
  const jobs = [...selected.values()];
  const run = async (id) => {
    if (await confirmJobs(id, jobs)) selected.clear();
    redraw();
  };
  return h(
    "div",
    { class: "filters selection", role: "region", "aria-label": "Selected jobs" },
    h("strong", {}, `${plural(selected.size, "job")} selected`),
    BULK.filter(() => jobs.some((job) => allows("operate", ofJob(job)))).map((id) => h("button", { class: ACTIONS[id].danger ? "danger" : "", disabled: !jobs.some(ACTIONS[id].when), onclick: () => run(id) }, glyph(ACTIONS[id].icon), ACTIONS[id].label)),
    h("button", { class: "quiet", onclick: () => {
      selected.clear();
      redraw();
    } }, "Clear"),
  );
}
