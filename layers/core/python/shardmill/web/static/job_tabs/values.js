// The values that the tasks of a step returned to later steps.

import { h } from "../core/vdom.js";
import { url } from "../core/api.js";
import { href, setQuery } from "../core/router.js";
import { LIVE } from "../core/states.js";
import { chosenStep } from "../core/task_grid.js";
import { empty, pending } from "../parts/messages.js";
import { pageButtons } from "../parts/pages.js";
import { stepChoice } from "../parts/step_choice.js";
import { show } from "../parts/values.js";

const PAGE = 64;

export function valuesTab(context) {
  const path = ({ job, parts, run }) => {
    const step = chosenStep(job, context.query.step);
    const query = new URLSearchParams(Object.entries({ run, from: context.query.from }).filter(([, value]) => value));
    return step && `${url([...parts, "steps", step.stepName, "tasks"])}:values${query.size ? `?${query}` : ""}`;
  };
  return {
    paths: (tab) => [path(tab)].filter(Boolean),
    render(tab) {
      const step = chosenStep(tab.job, context.query.step);
      if (!step) return empty("The job has no steps yet.");
      const resource = context.live(path(tab), { every: LIVE.has(step.state) ? 10 : 60 });
      return h("div", { class: "card pad-all" }, h("div", { class: "filters" }, stepChoice(tab.job, step), resource.data && pageButtons({ ...resource.data, size: PAGE, what: "Tasks", turn: (from) => setQuery({ from: String(from) }) })), pending(resource, "the values") || content(tab, step, resource.data));
    },
  };
}

const content = ({ job, run }, step, { items }) =>
  items.length
    ? h("dl", { class: "key-values" }, items.map((item) => [h("dt", { key: `${item.index}?` }, h("a", { href: href(["jobs", job.jobName, job.trigger, "steps", step.stepName, String(item.index)], { run }) }, `Task ${item.index}`)), h("dd", { key: `${item.index}=` }, h("pre", {}, show(item.value)))]))
    : empty("None of these tasks returned a value.", h("p", { class: "hint" }, "A task returns one by writing JSON to the file that $SHARDMILL_OUTPUT names."));
