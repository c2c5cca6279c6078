// Messages in place of data: loading, an empty list, or a problem.

import { h } from "../core/vdom.js";

export const waiting = (text = "Loading") => h("div", { class: "message", role: "status" }, h("span", { class: "spinner", "aria-hidden": "true" }), text);

export const empty = (text, ...more) => h("div", { class: "message empty" }, h("p", {}, text), more);

export function problem(error, linkText, link) {
  return h(
    "div",
    { class: "message problem", role: "alert" },
    h("p", {}, error.message.charAt(0).toUpperCase() + error.message.slice(1)),
    faults(error),
    error.status === 404 && h("p", { class: "hint" }, "It may have been deleted, or the address is wrong. ", h("a", { href: "#/jobs" }, "Search in all jobs"), " or ", h("a", { href: "#/" }, "see the overview"), "."),
    linkText && h("p", {}, h("a", { href: link }, linkText)),
  );
}

/** The faults of a rejected document, each with its place. */
export const faults = (error) =>
  error.faults?.length
    ? h("ul", { class: "faults" }, error.faults.map((fault) => h("li", {}, h("code", {}, fault.pointer || fault.path || "/"), " ", fault.message || fault.detail)))
    : null;

/** The state of a live resource in place of its data; null if it has data. */
export function pending(resource, what) {
  if (resource.data !== undefined) return null;
  return resource.error ? problem(resource.error) : waiting(`Loading ${what}`);
}
