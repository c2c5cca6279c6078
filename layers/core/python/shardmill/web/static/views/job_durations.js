// How long the tasks of a step took: a histogram, and the slowest by name.

import { h } from "../core/vdom.js";
import { duration, number, plural } from "../core/format.js";
import { href } from "../core/router.js";
import { badge, LIVE } from "../core/states.js";
import { chosenStep, gridPath, tasksOf } from "../core/task_grid.js";
import { empty, pending } from "../parts/messages.js";
import { stepChoice } from "../parts/step_choice.js";

const BINS = 30;
const SLOWEST = 15;

export function durationsTab(context) {
  const path = ({ job, parts, run }) => {
    const step = chosenStep(job, context.query.step);
    return step && gridPath(parts, step.stepName, { run });
  };
  return {
    paths: (tab) => [path(tab)],
    render(tab) {
      const step = chosenStep(tab.job, context.query.step);
      if (!step) return empty("The job has no steps yet.");
      const resource = context.live(path(tab), { every: LIVE.has(step.state) ? 6 : 20 });
      return h("div", { class: "card pad-all" }, h("div", { class: "filters" }, stepChoice(tab.job, step)), pending(resource, "the tasks") || content(tab, step, resource.data));
    },
  };
}

function content({ job, run }, step, grid) {
  const tasks = tasksOf(grid).filter((task) => task.ms > 0).sort((a, b) => a.ms - b.ms);
  if (!tasks.length) return empty("No task of this step has run yet.");
  const at = (share) => tasks[Math.min(tasks.length - 1, Math.floor(tasks.length * share))].ms;
  return [
    h("dl", { class: "facts" }, [["Tasks", number(tasks.length)], ["Median", duration(at(0.5))], ["90 %", duration(at(0.9))], ["99 %", duration(at(0.99))], ["Longest", duration(at(1))]].map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    histogram(tasks),
    h("h2", {}, "Slowest tasks"),
    h("div", { class: "scroll-x", tabindex: "0" }, h("table", {}, h("thead", {}, h("tr", {}, ["Task", "State", "Duration", "Times the median", "Attempt", "Worker"].map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, tasks.slice(-SLOWEST).reverse().map((task) => h("tr", { key: task.index }, h("td", { class: "nowrap" }, h("a", { href: href(["jobs", job.jobName, job.trigger, "steps", step.stepName, String(task.index)], { run }) }, `Task ${task.index}`)), h("td", {}, badge(task.state)), h("td", { class: "nowrap" }, duration(task.ms)), h("td", {}, (task.ms / Math.max(at(0.5), 1)).toFixed(1)), h("td", {}, String(task.attempt)), h("td", { class: "muted" }, task.worker)))))),
  ];
}

function histogram(tasks) {
  const longest = tasks.at(-1).ms;
  const bins = Array(BINS).fill(0);
  for (const task of tasks) bins[Math.min(BINS - 1, Math.floor((BINS * task.ms) / (longest + 1)))] += 1;
  const most = Math.max(...bins);
  const text = (index) => `${duration((longest * index) / BINS)} to ${duration((longest * (index + 1)) / BINS)}: ${plural(bins[index], "task")}`;
  return h(
    "figure",
    { class: "histogram", role: "img", "aria-label": `Distribution of the durations of ${plural(tasks.length, "task")}, from ${duration(tasks[0].ms)} to ${duration(longest)}` },
    h("svg", { viewBox: `0 0 ${BINS * 20} 130`, preserveAspectRatio: "none" }, bins.map((count, index) => h("rect", { key: index, x: index * 20 + 1, width: 18, y: 130 - (count ? Math.max(2, (126 * count) / most) : 0), height: count ? Math.max(2, (126 * count) / most) : 0, rx: 2 }, h("title", {}, text(index))))),
    h("figcaption", {}, h("span", {}, "0"), h("span", {}, duration(longest / 2)), h("span", {}, duration(longest))),
  );
}
