// The form that creates a token, and the dialog that shows its secret once.

import { h } from "../core/vdom.js";
import { post, url } from "../core/api.js";
import { refreshAll } from "../core/live.js";
import { heading, openDialog } from "../parts/dialog.js";
import { confirm } from "./confirm.js";

const SCOPES = [
  ["read", "see jobs, definitions, schedules and workers"],
  ["submit", "submit jobs, fire schedules"],
  ["operate", "suspend, resume, kill, rerun and delete jobs"],
  ["define", "save and delete definitions, schedules and groups"],
  ["worker", "register workers and run tasks"],
  ["admin", "everything, also tokens"],
];
const EXPIRY = [["", "never"], ["1", "in a day"], ["30", "in 30 days"], ["90", "in 90 days"], ["365", "in a year"]];
const names = (text) => text.split(/[\s,]+/).filter(Boolean);

export function createToken() {
  const form = { name: "", owner: "", scopes: new Set(["read"]), definitions: "", groups: "", days: "" };
  let issued = null;
  return confirm("Create a token", {
    lines: () => [form.scopes.size ? `A token with ${form.scopes.size === 1 ? "the scope" : "the scopes"} ${[...form.scopes].join(", ")} is created. Its secret is shown once.` : "Choose at least one scope."],
    fields: (redraw) => fields(form, redraw),
    button: "Create", done: "The token is created.", reason: false,
    run: async () => {
      issued = await post(url(["tokens"]), request(form));
      refreshAll();
    },
  }).then(() => issued && showSecret(issued));
}

function fields(form, redraw) {
  const text = (name, label, hint) => h("div", { class: "field" }, h("label", { for: `token-${name}` }, label), h("input", { id: `token-${name}`, value: form[name], autocomplete: "off", oninput: (event) => (form[name] = event.target.value) }), hint && h("p", { class: "hint" }, hint));
  const toggle = (name) => (event) => {
    event.target.checked ? form.scopes.add(name) : form.scopes.delete(name);
    redraw();
  };
  return [
    text("name", "Name", "What or who uses it, such as worker-berlin."),
    h("fieldset", { class: "field" }, h("legend", {}, "Scopes"), SCOPES.map(([name, meaning]) => h("label", { key: name, class: "check" }, h("input", { type: "checkbox", checked: form.scopes.has(name), onchange: toggle(name) }), h("span", {}, h("strong", {}, name), h("span", { class: "muted" }, ` ${meaning}`))))),
    h("details", {}, h("summary", {}, "Limits and owner"), h("div", { class: "fields" }, text("definitions", "Only these definitions", "Names, separated by commas; * at the end is a prefix."), text("groups", "Only these worker groups"), text("owner", "Owner", "Recorded as the user of its actions; its name if empty."))),
    h("div", { class: "field" }, h("label", { for: "token-days" }, "Expires"), h("select", { id: "token-days", onchange: (event) => (form.days = event.target.value) }, EXPIRY.map(([value, label]) => h("option", { value, selected: value === form.days }, label)))),
  ];
}

function request(form) {
  const limits = { ...(names(form.definitions).length ? { definitions: names(form.definitions) } : {}), ...(names(form.groups).length ? { groups: names(form.groups) } : {}) };
  const ofWorker = limits.groups ? { groups: limits.groups } : {};
  const scopes = [...form.scopes].map((scope) => withLimits(scope, scope === "worker" ? ofWorker : limits));
  const expires = form.days ? { expires: new Date(Date.now() + Number(form.days) * 86_400_000).toISOString() } : {};
  return { name: form.name.trim(), scopes, ...(form.owner.trim() ? { owner: form.owner.trim() } : {}), ...expires };
}

const withLimits = (scope, limits) => (Object.keys(limits).length ? { scope, ...limits } : scope);

/** Show the secret of a new or rotated token; it cannot be read again. */
export function showSecret(issued) {
  const copy = async (redraw, state) => {
    try {
      await navigator.clipboard.writeText(issued.token);
      state.copied = "Copied";
    } catch {
      state.copied = "Select the text and copy it";
    }
    redraw();
  };
  const state = { copied: "" };
  return openDialog("The token", (close, redraw) => [
    heading(`Token ${issued.name}`, close),
    h("div", { class: "body" }, h("p", {}, "Copy it now: Shardmill stores a hash only, and does not show it again."), h("pre", { class: "secret", tabindex: "0", "aria-label": "Secret" }, issued.token), state.copied && h("p", { role: "status" }, state.copied)),
    h("footer", {}, h("button", { onclick: () => copy(redraw, state) }, "Copy"), h("button", { class: "primary", onclick: () => close(true), mount: (el) => el.focus() }, "Done")),
  ]);
}
