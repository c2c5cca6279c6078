// The dry run of an action: the API returns its effect on each job without performing it.

import { h } from "../core/vdom.js";
import { post } from "../core/api.js";
import { number, plural } from "../core/format.js";
import { icon } from "../core/states.js";
import { faults } from "../parts/messages.js";

const BATCH = 100;
const MOST = 500;
const SHOWN = 100;
const WAIT_MS = 400;

/** A dry run that can be repeated; `redraw` is called with each answer. */
export function trial(redraw) {
  let last = 0;
  let timer = 0;
  const state = { items: null, error: null, asking: false, left: 0 };
  /** Request the dry run of `action` with this body on the jobs. An older answer is dropped. */
  state.ask = async (action, jobs, request) => {
    clearTimeout(timer);
    const own = ++last;
    Object.assign(state, { asking: true, left: Math.max(jobs.length - MOST, 0) });
    redraw();
    const found = await dryRun(action, jobs.slice(0, MOST), request).then((items) => ({ items, error: null }), (error) => ({ items: null, error }));
    if (own !== last) return;
    Object.assign(state, found, { asking: false });
    redraw();
  };
  /** Request it when the user has stopped typing; until then nothing can be confirmed. */
  state.askSoon = (...given) => {
    clearTimeout(timer);
    state.asking = true;
    timer = setTimeout(() => state.ask(...given), WAIT_MS);
  };
  /** Whether the answer is here and the action would change something. */
  state.isReady = () => !state.asking && Boolean(state.items?.some((item) => item.effect?.changes));
  /** Of these jobs, those that the action would change, and those that the dry run did not reach. */
  state.changed = (jobs) => jobs.filter((_, at) => at >= MOST || state.items?.[at]?.effect?.changes);
  return state;
}

async function dryRun(action, jobs, request) {
  const found = [];
  for (let at = 0; at < jobs.length; at += BATCH) {
    const named = jobs.slice(at, at + BATCH).map(({ jobName, trigger }) => ({ jobName, trigger }));
    found.push(...(await post("/v1/jobs:dry-run", { action, jobs: named, request })).items);
  }
  return found;
}

/** The result of the dry run: sentences for one job, a list for many. */
export function effects({ items, error, asking, left }, jobs) {
  if (error) return h("div", { class: "error", role: "alert" }, h("p", {}, error.message), faults(error));
  if (!items) return h("p", { class: "hint", role: "status" }, "Asking what will happen.");
  if (jobs.length === 1) return single(items[0], asking);
  const named = items.map((item, at) => ({ ...item, job: jobs[at] }));
  const changes = named.filter((item) => item.effect?.changes);
  const others = named.filter((item) => !item.effect?.changes);
  const changed = changes.length;
  return [
    h("p", { role: "status" }, `Dry run: ${plural(changed, "job")} will change, ${number(items.length - changed)} will not.`),
    h("ul", { class: "preview" }, [...changes, ...others].slice(0, SHOWN).map((item) => h("li", { key: item.job.id }, icon(item.effect?.state || item.job.state, item.job.state), line(item))), items.length > SHOWN && h("li", { class: "muted" }, `and ${plural(items.length - SHOWN, "more job")}`)),
    left > 0 && h("p", { class: "hint" }, `The dry run covers the first ${number(items.length)} jobs; ${number(left)} more are selected.`),
  ];
}

const line = ({ effect, problem, jobName, trigger }) => (effect ? h("span", { class: effect.changes ? "" : "muted" }, effect.sentences.join(" ")) : h("span", { class: "muted" }, reason(problem.detail, `${jobName}/${trigger}`)));

/** Why a job will not change, with its name. */
const reason = (detail, name) => (detail.includes(name) ? `${detail.charAt(0).toUpperCase()}${detail.slice(1)}.` : `${name} will not change: ${detail}.`);

function single({ effect, problem }, asking) {
  if (problem) return h("div", { class: "error", role: "alert" }, h("p", {}, problem.detail), faults(problem));
  return h("div", { class: `why ${asking ? "old" : ""}`, role: "status" }, effect.sentences.map((text) => h("p", {}, text)));
}
