// The cost of a job on AWS so far, by kind of operation.

import { h } from "../core/vdom.js";
import { action } from "../core/api.js";
import { number } from "../core/format.js";
import { pending } from "../parts/messages.js";

export function costTab(context) {
  const path = ({ parts }) => action(parts, "cost");
  return {
    paths: (tab) => [path(tab)],
    render(tab) {
      const resource = context.live(path(tab), { every: 20 });
      return pending(resource, "the cost") || content(resource.data);
    },
  };
}

const usd = (value) => `${value.toFixed(value < 0.01 ? 6 : 4)} USD`;

const content = (cost) =>
  h(
    "div",
    { class: "card scroll-x", tabindex: "0" },
    h(
      "table",
      {},
      h("thead", {}, h("tr", {}, ["Service", "Operation", "Number", "Cost"].map((name) => h("th", { scope: "col", class: { Service: "hide-small", Number: "number", Cost: "number" }[name] || "" }, name)))),
      h("tbody", {}, cost.items.map((item) => h("tr", { key: item.what }, h("td", { class: "muted hide-small" }, item.service), h("td", {}, item.what), h("td", { class: "number" }, number(Math.round(item.count * 10) / 10)), h("td", { class: "number" }, usd(item.usd)))), h("tr", { key: "total" }, h("th", { scope: "row" }, "Together"), h("td", { class: "hide-small" }), h("td", {}), h("td", { class: "number" }, h("strong", {}, usd(cost.usd)), cost.usdAtMost > cost.usd && h("div", { class: "hint" }, `at most ${usd(cost.usdAtMost)}`)))),
    ),
    h("p", { class: "hint" }, `An estimate of what has run so far, in list prices for ${cost.region} as of ${cost.pricesAsOf}, without free tiers. Requests that read, polling workers and their machines, logs and stored data are not included.`),
  );
