// Fields for parameters: one for each, of the type of its present value.

import { h } from "../core/vdom.js";

export const kind = (value) => (Array.isArray(value) ? "list" : value === null ? "value" : typeof value);

const article = (value) => (kind(value) === "object" ? "An object" : `A ${kind(value)}`);

/**
 * Draw a field for each parameter. `values`: its present values; `form`: {values, errors}, changed by the user;
 * `edited` is called after each change.
 */
export const paramFields = (values, form, edited = () => {}) =>
  Object.entries(values).map(([name, value]) => {
    const id = `param-${name}`;
    return h("div", { key: id, class: "field" }, h("label", { for: id }, name), control(id, value, form.values[name], (given) => {
      form.values[name] = given;
      edited();
    }), typeof value !== "string" && h("p", { class: "hint" }, `${article(value)}, as JSON`), form.errors[id] && h("p", { class: "error", role: "alert" }, form.errors[id]));
  });

function control(id, value, given, set) {
  if (typeof value === "boolean") return h("select", { id, onchange: (event) => set(event.target.value) }, ["true", "false"].map((text) => h("option", { value: text, selected: (given ?? String(value)) === text }, text)));
  const shown = given ?? (typeof value === "string" ? value : JSON.stringify(value));
  if ((typeof value === "object" && value !== null) || String(shown).includes("\n")) return h("textarea", { id, rows: 4, value: shown, oninput: (event) => set(event.target.value) });
  return h("input", { id, value: shown, oninput: (event) => set(event.target.value) });
}

/** The parameters that the user changed; null, with `form.errors`, if one of them is wrong. */
export function changedParams(values, form) {
  form.errors = {};
  const changed = {};
  for (const [name, text] of Object.entries(form.values)) {
    const value = parsed(text, values[name]);
    if (value === undefined) form.errors[`param-${name}`] = `Enter ${article(values[name]).toLowerCase()}, as JSON.`;
    else if (JSON.stringify(value) !== JSON.stringify(values[name])) changed[name] = value;
  }
  return Object.keys(form.errors).length ? null : changed;
}

/** A value of the same type as the present one; undefined if the text is not one. */
function parsed(text, example) {
  if (typeof example === "string") return text;
  try {
    const value = JSON.parse(text);
    return example === null || kind(value) === kind(example) ? value : undefined;
  } catch {
    return undefined;
  }
}
