// Control actions on one job or many: a confirmation that says what will happen, then the requests.

import { h } from "../core/vdom.js";
import { action, del, post, url } from "../core/api.js";
import { refreshAll } from "../core/live.js";
import { plural } from "../core/format.js";
import { allows, ofJob } from "../core/permissions.js";
import { icon } from "../core/states.js";
import { heading, openDialog } from "./dialog.js";
import { ACTIONS } from "./effects.js";
import { glyph } from "./icons.js";
import { faults } from "./messages.js";
import { changedParams, paramFields } from "./param_fields.js";
import { toast } from "./toast.js";

const AT_ONCE = 4;
const SHOWN = 100;

/** Whether an action is possible now and allowed by the token. */
const isPossible = (id, job) => ACTIONS[id].when(job) && (ACTIONS[id].scopes || ["operate"]).every((scope) => allows(scope, ofJob(job)));

export const actionButtons = (job, ids) =>
  ids.filter((id) => isPossible(id, job)).map((id) => h("button", { key: id, class: ACTIONS[id].danger ? "danger" : "", onclick: () => confirmJobs(id, [job]) }, glyph(ACTIONS[id].icon), ACTIONS[id].label));

/** The same, as entries of a menu. */
export const actionItems = (job, ids) => ids.filter((id) => isPossible(id, job)).map((id) => ({ id, label: ACTIONS[id].label, icon: ACTIONS[id].icon, danger: ACTIONS[id].danger, run: () => confirmJobs(id, [job]) }));

/** Show what an action will do to jobs, and do it if the user agrees. */
export function confirmJobs(id, jobs) {
  const wanted = ACTIONS[id];
  const possible = jobs.filter((job) => isPossible(id, job));
  const one = possible.length === 1 ? possible[0] : null;
  const form = { reason: "", options: {}, values: {}, params: { values: {}, errors: {} }, found: "", done: 0, failed: [], running: false, finished: false };
  const button = one ? wanted.label : `${wanted.label} ${plural(possible.length, "job")}`;
  return openDialog(wanted.label, (close, redraw) => {
    const run = async () => {
      const body = content(wanted, one, form);
      if (!body) return redraw();
      Object.assign(form, { running: true, failed: [], done: 0 });
      redraw();
      await inParallel(possible, async (job) => {
        try {
          await request(id, job, body, form);
        } catch (error) {
          form.failed.push([job, error]);
        }
        form.done += 1;
        redraw();
      });
      form.running = false;
      form.finished = !one;
      refreshAll();
      if (form.failed.length) return redraw();
      toast(one ? `${one.jobName}/${one.trigger} is ${wanted.done}.` : `${plural(possible.length, "job")} are ${wanted.done}.`);
      return close(true);
    };
    const start = async (el) => {
      el.focus();
      if (!one || !wanted.lookup) return;
      form.found = await wanted.lookup(one).catch((error) => error.message);
      redraw();
    };
    return [
      heading(jobs.length === 1 ? wanted.label : `${wanted.label}: ${plural(possible.length, "job")}`, close),
      h("div", { class: "body" }, effects(possible, wanted, form), unaffected(jobs.length - possible.length), fields(wanted, one, form, redraw), progress(possible, form)),
      h(
        "footer",
        {},
        h("button", { onclick: () => close(false) }, form.finished ? "Close" : "Cancel"),
        !form.finished && h("button", { class: `primary ${wanted.danger ? "danger" : ""}`, disabled: form.running || !possible.length, onclick: run, mount: start }, button),
      ),
    ];
  });
}

const effects = (jobs, wanted, form) =>
  jobs.length === 1 ? h("div", { class: "why" }, [...wanted.effect(jobs[0]), wanted.lookup && (form.found || "Looking for the jobs that depend on it.")].filter(Boolean).map((line) => h("p", {}, line))) : preview(jobs, wanted);

const preview = (jobs, wanted) =>
  h(
    "ul",
    { class: "preview" },
    jobs.slice(0, SHOWN).map((job) => h("li", { key: job.id }, icon(job.state, job.state), h("span", {}, wanted.effect(job).filter(Boolean).join(" ")))),
    jobs.length > SHOWN && h("li", { class: "muted" }, `and ${plural(jobs.length - SHOWN, "more job")}`),
  );

const unaffected = (count) => count > 0 && h("p", { class: "hint" }, `${plural(count, "selected job", "selected jobs")} will not change: this is not possible in ${count === 1 ? "its" : "their"} state, or not allowed.`);

/** The fields of an action: parameters, choices, values, options and the reason. */
function fields(wanted, job, form, redraw) {
  const field = (id, label, input) => h("div", { key: id, class: "field" }, h("label", { for: `action-${id}` }, label), input);
  const set = (id) => (event) => {
    form.values[id] = event.target.value;
    redraw();
  };
  return [
    job && wanted.params && h("div", { key: "params", class: "fields" }, paramFields(job.params, form.params), !Object.keys(job.params).length && h("p", { class: "hint" }, "The job has no parameters.")),
    job && wanted.choices?.(job).map(({ id, label, options }) => field(id, label, h("select", { id: `action-${id}`, onchange: set(id) }, options.map(([value, text]) => h("option", { value, selected: value === (form.values[id] ?? options[0][0]) }, text))))),
    job && wanted.inputs?.(job).map(({ id, label, type, value }) => field(id, label, h("input", { id: `action-${id}`, type, value: form.values[id] ?? value, oninput: (event) => (form.values[id] = event.target.value) }))),
    (wanted.options || []).map((option) => h("label", { key: option.id, class: "check" }, h("input", { type: "checkbox", checked: Boolean(form.options[option.id]), onchange: (event) => (form.options[option.id] = event.target.checked) }), option.label)),
    wanted.method !== "DELETE" && h("div", { key: "reason", class: "field" }, h("label", { for: "reason" }, "Reason"), h("input", { id: "reason", maxlength: "500", placeholder: "Optional; recorded in the history", value: form.reason, oninput: (event) => (form.reason = event.target.value) })),
  ];
}

const progress = (jobs, form) => [
  form.running && h("p", { role: "status" }, `${form.done} of ${jobs.length} done`),
  form.failed.length > 0 && h("ul", { class: "error", role: "alert" }, form.failed.slice(0, 20).map(([job, error]) => h("li", {}, `${job.jobName}/${job.trigger}: ${error.message}`, faults(error)))),
];

/** The body of the request; null if a parameter is wrong. */
function content(wanted, job, form) {
  const chosen = Object.fromEntries(Object.entries(form.options).filter(([, value]) => value));
  const body = { ...wanted.body, ...chosen, ...(form.reason ? { reason: form.reason } : {}) };
  if (!job) return body;
  for (const { id, options } of wanted.choices?.(job) || []) if (form.values[id] ?? options[0][0]) body[id] = form.values[id] ?? options[0][0];
  for (const { id, value, read } of wanted.inputs?.(job) || []) if ((form.values[id] ?? value) !== "") body[id] = read(form.values[id] ?? value);
  if (!wanted.params) return body;
  const params = changedParams(job.params, form.params);
  return params && { ...body, params };
}

function request(id, job, body, { options }) {
  const wanted = ACTIONS[id];
  const parts = ["jobs", job.jobName, job.trigger];
  if (wanted.method === "DELETE") return del(url(parts, options.full ? { full: "true" } : {}));
  return post(action(parts, wanted.route || id), body);
}

async function inParallel(items, run) {
  const left = [...items];
  const worker = async () => {
    while (left.length) await run(left.shift());
  };
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, items.length) }, worker));
}
