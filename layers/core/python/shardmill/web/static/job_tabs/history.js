// Every change of state of a job and its steps.

import { h } from "../core/vdom.js";
import { url } from "../core/api.js";
import { clock } from "../core/format.js";
import { badge } from "../core/states.js";
import { pending } from "../parts/messages.js";

const MOST = 1_000;

export function historyTab(context) {
  const path = ({ parts }) => url([...parts, "history"]);
  return {
    paths: (tab) => [path(tab)],
    render(tab) {
      const resource = context.live(path(tab), { every: 10 });
      return pending(resource, "the history") || h("div", { class: "card scroll-x", tabindex: "0" }, table([...resource.data.items].reverse()));
    },
  };
}

const table = (items) => [
  h(
    "table",
    { class: "table-history" },
    h("thead", {}, h("tr", {}, ["Time", "Run", "What", "State", "By", "Reason"].map((name) => h("th", { scope: "col", class: name === "Run" ? "hide-small" : "" }, name)))),
    h("tbody", {}, items.slice(0, MOST).map((item, index) => h("tr", { key: items.length - index }, h("td", { class: "nowrap muted" }, clock(item.time)), h("td", { class: "hide-small" }, String(item.run)), h("td", { class: "nowrap" }, item.stepName ? `step ${item.stepName}` : h("strong", {}, "job")), h("td", {}, badge(item.state)), h("td", {}, item.actor), h("td", { class: "wrap" }, item.reason)))),
  ),
  items.length > MOST && h("p", { class: "hint" }, `The last ${MOST} of ${items.length} changes`),
];
