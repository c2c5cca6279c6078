// Tabs whose choice is part of the address.

import { h } from "../core/vdom.js";
import { parse } from "../core/router.js";

/** Settings that all tabs share. */
const KEPT = ["run", "version"];

export function tabs(label, entries, chosen) {
  const { path, query } = parse(location.hash);
  const address = (id) => `#${path}?${new URLSearchParams([...KEPT.filter((name) => query[name]).map((name) => [name, query[name]]), ["tab", id]])}`;
  return h("nav", { class: "tabs", "aria-label": label }, entries.map(([id, text]) => h("a", { key: id, href: address(id), "aria-current": id === chosen ? "page" : undefined }, text)));
}
