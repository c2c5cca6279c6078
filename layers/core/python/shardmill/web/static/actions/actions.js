// Control actions on one job or many: a confirmation that describes the effect, then the requests.

import { h } from "../core/vdom.js";
import { action, del, post, url } from "../core/api.js";
import { refreshAll } from "../core/live.js";
import { plural } from "../core/format.js";
import { allows, ofJob } from "../core/permissions.js";
import { focusUnlessTyping, heading, openDialog } from "../parts/dialog.js";
import { glyph } from "../parts/icons.js";
import { faults } from "../parts/messages.js";
import { changedParams, paramFields } from "../parts/param_fields.js";
import { toast } from "../parts/toast.js";
import { ACTIONS } from "./job_actions.js";
import { effects, trial } from "./trial.js";

const AT_ONCE = 4;

/** Whether an action is possible now and allowed by the token. */
const isPossible = (id, job) => ACTIONS[id].when(job) && (ACTIONS[id].scopes || ["operate"]).every((scope) => allows(scope, ofJob(job)));

export const actionButtons = (job, ids) =>
  ids.filter((id) => isPossible(id, job)).map((id) => h("button", { key: id, class: ACTIONS[id].danger ? "danger" : "", onclick: () => confirmJobs(id, [job]) }, glyph(ACTIONS[id].icon), ACTIONS[id].label));

/** The same, as entries of a menu. */
export const actionItems = (job, ids) => ids.filter((id) => isPossible(id, job)).map((id) => ({ id, label: ACTIONS[id].label, icon: ACTIONS[id].icon, danger: ACTIONS[id].danger, run: () => confirmJobs(id, [job]) }));

/** Show the dry run of an action on jobs, and perform the action if the user confirms. */
export function confirmJobs(id, jobs) {
  const wanted = ACTIONS[id];
  const one = jobs.length === 1 ? jobs[0] : null;
  const form = { reason: "", options: {}, values: {}, params: { values: {}, errors: {} }, done: 0, failed: [], running: false, finished: false };
  let tried;
  return openDialog(wanted.label, (close, redraw) => {
    tried ??= trial(redraw);
    const route = wanted.route || id;
    const changed = tried.changed(jobs);
    const isReady = tried.isReady();
    const run = async () => {
      const body = content(wanted, one, form);
      if (!body) return redraw();
      Object.assign(form, { running: true, failed: [], done: 0, total: changed.length });
      redraw();
      await inParallel(changed, async (job) => {
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
      toast(one ? `${one.jobName}/${one.trigger} is ${wanted.done}.` : `${plural(changed.length, "job")} ${changed.length === 1 ? "is" : "are"} ${wanted.done}.`);
      return close(true);
    };
    /** Repeat the dry run after a change of the form, if it is complete. */
    const edited = (soon) => {
      const body = content(wanted, one, form);
      if (body && !isEmpty(wanted, body)) (soon ? tried.askSoon : tried.ask)(route, jobs, body);
      redraw();
    };
    return [
      heading(one ? wanted.label : `${wanted.label}: ${plural(jobs.length, "job")}`, close),
      h("div", { class: "body", mount: () => queueMicrotask(() => edited(false)) }, isEmpty(wanted, content(wanted, one, form)) ? h("p", { class: "hint" }, wanted.hint) : effects(tried, jobs), fields(wanted, one, form, edited), progress(form)),
      h(
        "footer",
        {},
        h("button", { onclick: () => close(false) }, form.finished ? "Close" : "Cancel"),
        !form.finished && h("button", { key: String(isReady), class: `primary ${wanted.danger ? "danger" : ""}`, disabled: form.running || !isReady || isEmpty(wanted, content(wanted, one, form)), onclick: run, mount: focusUnlessTyping }, one || !changed.length ? wanted.label : `${wanted.label} ${plural(changed.length, "job")}`),
      ),
    ];
  });
}

/** Whether the user has entered no change yet, apart from the reason. */
const isEmpty = (wanted, body) => Boolean(wanted.hint) && body !== null && Object.keys(body).every((name) => name === "reason");

/** The fields of an action: parameters, choices, values, options and the reason. */
function fields(wanted, job, form, edited) {
  const field = (id, label, input) => h("div", { key: id, class: "field" }, h("label", { for: `action-${id}` }, label), input);
  const set = (id) => (event) => {
    form.values[id] = event.target.value;
    edited(true);
  };
  return [
    job && wanted.params && h("div", { key: "params", class: "fields" }, paramFields(job.params, form.params, () => edited(true)), !Object.keys(job.params).length && h("p", { class: "hint" }, "The job has no parameters.")),
    job && wanted.choices?.(job).map(({ id, label, options }) => field(id, label, h("select", { id: `action-${id}`, onchange: set(id) }, options.map(([value, text]) => h("option", { value, selected: value === (form.values[id] ?? options[0][0]) }, text))))),
    job && wanted.inputs?.(job).map(({ id, label, type, value }) => field(id, label, h("input", { id: `action-${id}`, type, value: form.values[id] ?? value, oninput: set(id) }))),
    (wanted.options || []).map((option) => h("label", { key: option.id, class: "check" }, h("input", { type: "checkbox", checked: Boolean(form.options[option.id]), onchange: (event) => {
      form.options[option.id] = event.target.checked;
      edited(true);
    } }), option.label)),
    wanted.method !== "DELETE" && h("div", { key: "reason", class: "field" }, h("label", { for: "reason" }, "Reason"), h("input", { id: "reason", maxlength: "500", placeholder: "Optional; recorded in the history", value: form.reason, oninput: (event) => (form.reason = event.target.value) })),
  ];
}

const progress = (form) => [
  form.running && h("p", { role: "status" }, `${form.done} of ${form.total} done`),
  form.failed.length > 0 && h("ul", { class: "error", role: "alert" }, form.failed.slice(0, 20).map(([job, error]) => h("li", {}, `${job.jobName}/${job.trigger}: ${error.message}`, faults(error)))),
];

/** The body of the request; null if a parameter is wrong. */
function content(wanted, job, form) {
  const chosen = Object.fromEntries(Object.entries(form.options).filter(([, value]) => value));
  const body = { ...wanted.body, ...chosen, ...(form.reason ? { reason: form.reason } : {}) };
  if (!job) return body;
  for (const { id, options } of wanted.choices?.(job) || []) if (form.values[id] ?? options[0][0]) body[id] = form.values[id] ?? options[0][0];
  for (const { id, value, read } of wanted.inputs?.(job) || []) if (![undefined, "", value].includes(form.values[id])) body[id] = read(form.values[id]);
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
