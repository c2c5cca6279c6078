// Control actions on a step or a task of a job.

import { action, post } from "../core/api.js";
import { refreshAll } from "../core/live.js";
import { allows, ofJob } from "../core/permissions.js";
import { LIVE } from "../core/states.js";
import { menu } from "../parts/menu.js";
import { confirm } from "./confirm.js";

function send(job, route, body) {
  return async (reason) => {
    await post(action(["jobs", job.jobName, job.trigger], route), { ...body, ...reason });
    refreshAll();
  };
}

/** A confirmation of an action on a part of a job, with its dry run. */
export const confirmPart = (title, job, route, body, { done, danger = false, lines } = {}) => confirm(title, { tries: { action: route, job, body }, lines, button: title.split(":")[0], done, danger, run: send(job, route, body) });

/** The menu of a step: kill it, end it as SUCCESS, or run it again. */
export function stepMenu(job, step) {
  if (!allows("operate", ofJob(job))) return null;
  const isLive = LIVE.has(job.state) && LIVE.has(step.state);
  const name = step.stepName;
  const entry = (id, label, icon, danger, route, body, done) => ({ id, label, icon, danger, run: () => confirmPart(`${label}: ${name}`, job, route, body, { done, danger }) });
  return menu("Step", [
    isLive && entry("kill", "Kill the step", "stop", true, "kill", { stepName: name }, `Step ${name} is killed.`),
    LIVE.has(job.state) && step.state !== "SUCCESS" && entry("force", "Force success", "check", true, "force", { stepName: name, state: "SUCCESS" }, `Step ${name} is forced to SUCCESS.`),
    !LIVE.has(job.state) && entry("rerun", "Rerun from this step", "redo", false, "recompute", { stepName: name }, "The run has started."),
  ]);
}
