// A form to submit a job, made from its definition.

import { h } from "../core/vdom.js";
import { post, url } from "../core/api.js";
import { go, href } from "../core/router.js";
import { faults, pending } from "../parts/messages.js";
import { changedParams, paramFields } from "../parts/param_fields.js";
import { toast } from "../parts/toast.js";

export const title = ({ jobName }) => `Submit ${jobName}`;

export default function submit(context) {
  const { jobName } = context.params;
  const form = { values: {}, trigger: "", made: fromTime(new Date()), priority: "", dataTime: "", more: [], errors: {}, error: null, busy: false };

  async function send(event, define, values) {
    event.preventDefault();
    const request = read(form, define, values, jobName);
    if (!request) return context.redraw();
    form.busy = true;
    form.error = null;
    context.redraw();
    try {
      const job = await post(url(["jobs"]), request);
      toast(`${job.jobName}/${job.trigger} is submitted.`);
      go(href(["jobs", job.jobName, job.trigger]));
    } catch (error) {
      form.error = error;
    }
    form.busy = false;
    return context.redraw();
  }

  return function render() {
    const resource = context.live(url(["definitions", jobName]), { every: 60 });
    const message = pending(resource, "the definition");
    if (message) return message;
    const define = resource.data;
    const like = context.query.like && context.live(url(["jobs", jobName, context.query.like]), { every: 300 });
    if (like && !like.data && !like.error) return pending(like, "the job");
    const values = { ...define.params, ...like?.data?.params };
    const field = (id, label, input, hint) => h("div", { key: id, class: "field" }, h("label", { for: id }, label), input, hint && h("p", { class: "hint" }, hint), form.errors[id] && h("p", { class: "error", role: "alert" }, form.errors[id]));
    const text = (id, value, set, more = {}) => h("input", { id, value, oninput: (event) => set(event.target.value), ...more });
    return [
      h("p", { class: "crumbs" }, h("a", { href: "#/definitions" }, "Definitions"), " / ", h("a", { href: href(["definitions", jobName]) }, jobName)),
      h("h1", {}, `Submit ${jobName}`),
      like?.data && h("p", {}, "With the parameters of ", h("a", { href: href(["jobs", jobName, context.query.like]) }, context.query.like), "."),
      define.description && h("p", {}, define.description),
      h(
        "form",
        { class: "card pad-all narrow", onsubmit: (event) => send(event, define, values) },
        paramFields(values, form),
        !Object.keys(values).length && h("p", { class: "hint" }, "The definition has no parameters."),
        form.more.map((entry, at) => h("div", { key: at, class: "filters" }, h("input", { "aria-label": "Name of the parameter", placeholder: "Name", value: entry[0], oninput: (event) => (entry[0] = event.target.value) }), h("input", { "aria-label": "Value of the parameter", placeholder: "Value", value: entry[1], oninput: (event) => (entry[1] = event.target.value) }))),
        h("p", {}, h("button", { type: "button", class: "link", onclick: () => {
          form.more.push(["", ""]);
          context.redraw();
        } }, "Add a parameter")),
        h("details", {}, h("summary", {}, "More settings"), h("div", { class: "fields" }, field("trigger", "Trigger", text("trigger", form.trigger, (value) => (form.trigger = value), { placeholder: form.made }), "Identifies the job together with its name. Submitting the same trigger again does not start a second job."), field("priority", "Priority", text("priority", form.priority, (value) => (form.priority = value), { placeholder: String(define.priority ?? 1), inputmode: "numeric" })), field("data-time", "Data time", text("data-time", form.dataTime, (value) => (form.dataTime = value), { placeholder: "2026-11-18T06:00:00Z" })))),
        form.error && h("div", { class: "error", role: "alert" }, h("p", {}, form.error.message), faults(form.error)),
        h("p", {}, h("button", { class: "primary", disabled: form.busy }, form.busy ? "Submitting" : "Submit")),
      ),
    ];
  };
}

/** A trigger for a time: 20261118T060000Z. A form keeps its trigger, so that a repeated click submits one job. */
const fromTime = (time) => `${time.toISOString().slice(0, 19).replace(/[-:]/g, "")}Z`;

/** The values of the job that the form starts from, if they differ from the values of the definition. */
const given = (define, values) => Object.fromEntries(Object.entries(values).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(define.params?.[name])));

/** The request of the form, with only the parameters that differ from their defaults; null if a field is wrong. */
function read(form, define, values, jobName) {
  const changed = changedParams(values, form);
  const params = { ...given(define, values), ...changed };
  for (const [name, value] of form.more) if (name.trim()) params[name.trim()] = value;
  if (form.priority && !/^-?\d+$/.test(form.priority)) form.errors.priority = "Enter a whole number.";
  if (Object.keys(form.errors).length) return null;
  return { jobName, params, trigger: form.trigger.trim() || form.made, ...(form.priority ? { priority: Number(form.priority) } : {}), ...(form.dataTime ? { dataTime: form.dataTime.trim() } : {}) };
}
