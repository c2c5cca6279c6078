// The durations of the tasks of a step: a histogram, and the slowest tasks by name.

import { h } from "../core/vdom.js";
import { duration, number, plural } from "../core/format.js";
import { href } from "../core/router.js";
import { badge, LIVE } from "../core/states.js";
import { chosenStep, gridPath, tasksOf } from "../core/task_grid.js";
import { empty, pending } from "../parts/messages.js";
import { stepChoice } from "../parts/step_choice.js";

const BINS = 30;
const SLOWEST = 15;
/** From this many times the median on, the histogram has a logarithmic scale. */
const SPREAD = 20;
/** Fewer tasks have no distribution. */
const FEW = 3;

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
  const tasks = tasksOf(grid).filter((task) => task.attempt > 0 && (task.ms > 0 || !LIVE.has(task.state))).sort((a, b) => a.ms - b.ms);
  if (!tasks.length) return empty("No task of this step has run yet.");
  const ended = tasks.filter((task) => !LIVE.has(task.state));
  const live = tasks.length - ended.length;
  const at = (share) => tasks[Math.min(tasks.length - 1, Math.floor(tasks.length * share))].ms;
  return [
    h("dl", { class: "facts" }, [["Tasks", number(tasks.length)], live > 0 && ["Still running", number(live)], ["Median", duration(at(0.5))], ["90 %", duration(at(0.9))], ["99 %", duration(at(0.99))], ["Longest", duration(at(1))]].filter(Boolean).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    tasks.length >= FEW && histogram(ended.length ? ended : tasks),
    h("h2", {}, "Slowest tasks"),
    h("div", { class: "scroll-x", tabindex: "0" }, h("table", { class: "table-slowest" }, h("thead", {}, h("tr", {}, ["Task", "State", "Duration", "Times the median", "Attempt", "Worker"].map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, tasks.slice(-SLOWEST).reverse().map((task) => h("tr", { key: task.index }, h("td", { class: "nowrap" }, h("a", { href: href(["jobs", job.jobName, job.trigger, "steps", step.stepName, String(task.index)], { run }) }, `Task ${task.index}`)), h("td", {}, badge(task.state)), h("td", { class: "nowrap" }, duration(task.ms)), h("td", {}, (task.ms / Math.max(at(0.5), 1)).toFixed(1)), h("td", {}, String(task.attempt)), h("td", { class: "muted" }, task.worker)))))),
  ];
}

/** The tasks by duration; of those that still run only if no task has ended. The times of a few very slow ones do not hide the others. */
function histogram(tasks) {
  const [shortest, longest] = [tasks[0].ms, Math.max(tasks.at(-1).ms, 1)];
  const isWide = longest > SPREAD * Math.max(tasks[Math.floor(tasks.length / 2)].ms, 1);
  const least = Math.max(shortest, 1);
  const timeAt = (share) => (isWide ? least * (longest / least) ** share : longest * share);
  const shareOf = (time) => (isWide ? Math.log(Math.max(time, least) / least) / Math.log(longest / least) : time / longest);
  const bins = Array(BINS).fill(0);
  for (const task of tasks) bins[Math.min(BINS - 1, Math.floor(BINS * shareOf(task.ms)))] += 1;
  const most = Math.max(...bins);
  const text = (index) => `${duration(timeAt(index / BINS))} to ${duration(timeAt((index + 1) / BINS))}: ${plural(bins[index], "task")}`;
  const height = (count) => (count ? Math.max(2, (126 * count) / most) : 0);
  return h(
    "figure",
    { class: "histogram", role: "img", "aria-label": `Distribution of the durations of ${plural(tasks.length, "task")}, from ${duration(shortest)} to ${duration(longest)}` },
    h("svg", { viewBox: `0 0 ${BINS * 20} 130`, preserveAspectRatio: "none" }, bins.map((count, index) => h("rect", { key: index, x: index * 20 + 1, width: 18, y: 130 - height(count), height: height(count), rx: 2 }, h("title", {}, text(index))))),
    h("figcaption", {}, [0, 0.25, 0.5, 0.75, 1].map((share) => h("span", { key: share }, timeAt(share) ? duration(timeAt(share)) : "0"))),
    isWide && h("p", { class: "hint" }, "Logarithmic scale"),
  );
}
