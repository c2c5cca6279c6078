// The graph of a job's steps, with the progress of each.

import { number, plural } from "../core/format.js";
import { href } from "../core/router.js";
import { h } from "../core/vdom.js";
import { graph, graphState } from "../charts/graph.js";
import { ended } from "../charts/progress.js";

export function graphTab() {
  const state = graphState();
  return {
    render: ({ job, run }) => h("div", { class: "card" }, graph(state, job.steps.map((step) => node(job, step, run)), { label: "Graph of the steps", source: job })),
  };
}

const SHOWN = ["SUCCESS", "FAILED", "KILLED", "RUNNING", "SUSPENDED"];

function node(job, step, run) {
  const done = ended(step.counts);
  const failed = step.counts?.FAILED ? `, ${number(step.counts.FAILED)} failed` : "";
  const tasks = step.totalWork ? `${number(done)} / ${plural(step.totalWork, "task")}${failed}` : "no tasks yet";
  return {
    id: step.stepName,
    after: step.dependentSteps,
    phase: step.phase,
    state: step.state,
    title: step.stepName,
    detail: tasks.length > 26 ? tasks.replace(/ tasks?/, "") : tasks,
    shares: step.totalWork ? SHOWN.filter((state) => step.counts?.[state]).map((state) => [state, step.counts[state] / step.totalWork]) : [],
    href: href(["jobs", job.jobName, job.trigger], { run, tab: "tasks", step: step.stepName }),
    label: `${step.stepName}: ${step.state}, ${tasks}${step.notes ? `, ${step.notes}` : ""}`,
  };
}
