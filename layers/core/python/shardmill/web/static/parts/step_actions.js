// Control actions on a step or a task of a job, with confirmations from their present state.

import { action, post } from "../core/api.js";
import { number, plural } from "../core/format.js";
import { refreshAll } from "../core/live.js";
import { allows, ofJob } from "../core/permissions.js";
import { LIVE } from "../core/states.js";
import { confirm } from "./confirm.js";
import { menu } from "./menu.js";

const open = (counts = {}) => (counts.READY || 0) + (counts.RUNNING || 0) + (counts.SUSPENDED || 0);

function send(job, route, body) {
  return async (reason) => {
    await post(action(["jobs", job.jobName, job.trigger], route), { ...body, ...reason });
    refreshAll();
  };
}

/** The menu of a step: kill it, end it as SUCCESS, or run it again. */
export function stepMenu(job, step) {
  if (!allows("operate", ofJob(job))) return null;
  const isLive = LIVE.has(job.state) && LIVE.has(step.state);
  const name = step.stepName;
  const entry = (id, label, icon, danger, lines, route, body, done) => ({ id, label, icon, danger, run: () => confirm(`${label}: ${name}`, { lines, button: label, done, danger, run: send(job, route, body) }) });
  return menu("Step", [
    isLive && entry("kill", "Kill the step", "stop", true, [`Step ${name} ends as KILLED. ${plural(open(step.counts), "open task")} end with it, of which ${number(step.counts?.RUNNING || 0)} run.`, "Steps that depend on it are skipped."], "kill", { stepName: name }, `Step ${name} is killed.`),
    LIVE.has(job.state) && step.state !== "SUCCESS" && entry("force", "Force success", "check", true, [`Step ${name} ends as SUCCESS without running what is left.`, "Steps that depend on it continue."], "force", { stepName: name, state: "SUCCESS" }, `Step ${name} is forced to SUCCESS.`),
    !LIVE.has(job.state) && entry("rerun", "Rerun from this step", "redo", false, [`Run ${job.run + 1} of ${job.jobName}/${job.trigger} starts: step ${name} (${plural(step.totalWork, "task")}) and all steps that depend on it run again.`, "Other results are kept."], "recompute", { stepName: name }, "The run has started."),
  ]);
}

/** The request that ends a task as SUCCESS. */
export const forceTask = (job, task) =>
  confirm("Force success", { lines: [`Task ${task.sharding.index} of ${task.stepName} ends as SUCCESS without running again.`, "Steps that depend on it continue when all tasks of the step have ended."], button: "Force success", done: "The task is forced to SUCCESS.", danger: true, run: send(job, "force", { stepName: task.stepName, index: task.sharding.index, state: "SUCCESS" }) });
