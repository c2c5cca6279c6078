// Values of parameters, outputs and documents, shown as text.

import { h } from "../core/vdom.js";

export const show = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, typeof value === "object" ? 2 : undefined));

/** A table of names and values. */
export function keyValues(values) {
  const entries = Object.entries(values || {});
  if (!entries.length) return h("p", { class: "hint pad" }, "None");
  return h("dl", { class: "key-values" }, entries.map(([name, value]) => [h("dt", { key: `${name}?` }, name), h("dd", { key: `${name}=` }, h("pre", {}, show(value)))]));
}
