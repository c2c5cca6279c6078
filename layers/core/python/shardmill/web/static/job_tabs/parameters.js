// The parameters of a job and of its steps, and the runs it depends on.

import { h } from "../core/vdom.js";
import { url } from "../core/api.js";
import { clock, plural } from "../core/format.js";
import { href } from "../core/router.js";
import { badge } from "../core/states.js";
import { keyValues } from "../parts/values.js";

export function parametersTab(context) {
  const path = ({ parts }) => url([...parts, "dependencies"]);
  return {
    paths: (tab) => [path(tab)],
    render(tab) {
      const expected = context.live(path(tab), { every: 15 }).data?.items || [];
      const own = JSON.stringify(tab.job.params || {});
      const steps = tab.job.steps.filter((step) => step.command || (Object.keys(step.params || {}).length && JSON.stringify(step.params) !== own));
      const others = tab.job.steps.length - steps.length;
      return h(
        "div",
        { class: "grid-2" },
        h("section", { class: "card" }, h("h2", {}, "Parameters of the job"), keyValues(tab.job.params), others > 0 && Object.keys(tab.job.params || {}).length > 0 && h("p", { class: "hint" }, steps.length ? `${plural(others, "other step")} ${others === 1 ? "has" : "have"} these parameters.` : "Every step has these parameters.")),
        expected.length > 0 && h("section", { class: "card scroll-x span-2", tabindex: "0" }, h("h2", {}, "Depends on"), dependencies(expected)),
        steps.map((step) => h("section", { key: step.index, class: "card" }, h("h2", {}, `Step ${step.stepName}`), keyValues({ ...step.params, ...(step.command ? { command: step.command } : {}) }))),
      );
    },
  };
}

const dependencies = (items) =>
  h("table", { class: "table-needs" }, h("thead", {}, h("tr", {}, ["Job", "Data time", "State", "Strategy", "Met"].map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, items.map((item) => h("tr", {}, h("td", {}, item.preTrigger ? h("a", { href: href(["jobs", item.preJob, item.preTrigger]) }, `${item.preJob} ${item.preTrigger}`) : item.preJob), h("td", { class: "nowrap" }, clock(item.dataTime)), h("td", {}, item.preState ? badge(item.preState) : h("span", { class: "muted" }, "not there")), h("td", {}, item.strategy), h("td", {}, item.met ? "yes" : "no")))));
