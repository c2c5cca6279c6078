// What a control action will do to a job, in sentences for its confirmation, from the job's present state and counts.

import { get, url } from "../core/api.js";
import { number, plural } from "../core/format.js";
import { LIVE } from "../core/states.js";

const ENDED = ["SUCCESS", "FAILED", "KILLED"];
const isLive = (job) => LIVE.has(job.state);

/** The actions on a job: when each is possible, its request, and what it will do. */
export const ACTIONS = {
  suspend: {
    label: "Suspend", icon: "pause", done: "suspended",
    when: (job) => isLive(job) && job.state !== "SUSPENDED",
    effect: (job) => [`No further task of ${name(job)} starts.`, running(job, "is stopped and starts again after the resume", "are stopped and start again after the resume")],
    options: [{ id: "letFinish", label: "Let running tasks finish" }],
  },
  resume: {
    label: "Resume", icon: "play", done: "resumed",
    when: (job) => job.state === "SUSPENDED",
    effect: (job) => (job.lastFailed ? [`Run ${job.run + 1} of ${name(job)} starts. ${failed(job)} Tasks that succeeded are kept.`] : [`${name(job)} continues where it was suspended.`]),
  },
  kill: {
    label: "Kill", icon: "stop", danger: true, done: "killed",
    when: isLive,
    effect: (job) => [`${name(job)} ends as KILLED.`, running(job, "is stopped", "are stopped"), open(job)],
  },
  rerun: {
    label: "Rerun failed", icon: "redo", done: "started again",
    when: (job) => ["FAILED", "KILLED", "SUSPENDED"].includes(job.state),
    effect: (job) => [`Run ${job.run + 1} of ${name(job)} starts with definition version ${job.definitionVersion}.`, failed(job), "Tasks that succeeded are kept."],
  },
  rerunChanged: {
    label: "Rerun with other parameters", icon: "redo", route: "rerun", done: "started again", params: true, scopes: ["operate", "submit"],
    when: (job) => (ENDED.includes(job.state) || job.state === "SUSPENDED") && Object.keys(job.params || {}).length > 0,
    effect: (job) => [`Run ${job.run + 1} of ${name(job)} starts with the parameters below. Later runs keep them.`],
    choices: (job) => [{ id: "scope", label: "Run again", options: [...(job.state === "SUCCESS" ? [] : [["", "what failed; tasks that succeeded keep their results"]]), ["all", "everything"]] }],
  },
  rerunDependents: {
    label: "Rerun with dependent jobs", icon: "redo", route: "rerun", body: { dependents: true }, done: "started again",
    when: (job) => ENDED.includes(job.state) && Boolean(job.dataTime),
    effect: (job) => [`Run ${job.run + 1} of ${name(job)} starts. ${job.state === "SUCCESS" ? all(job) : failed(job)}`],
    lookup: async (job) => {
      const { items } = await get(url(["jobs", job.jobName, job.trigger, "dependents"]));
      return items.length ? `Then ${plural(items.length, "job that depends on it runs", "jobs that depend on it run")} again, each after its parents: ${items.slice(0, 20).map(name).join(", ")}${items.length > 20 ? " …" : ""}.` : "No job of the same data time depends on it.";
    },
  },
  recompute: {
    label: "Rerun from a step", icon: "redo", done: "started again",
    when: (job) => ENDED.includes(job.state) && job.steps?.length > 0,
    effect: (job) => [`Run ${job.run + 1} of ${name(job)} starts. The chosen step and all steps that depend on it run again; other results are kept.`],
    choices: (job) => [{ id: "stepName", label: "Step", options: job.steps.map((step) => [step.stepName, `${step.stepName} (${step.state.toLowerCase()})`]) }],
  },
  start: {
    label: "Start without dependencies", icon: "play", done: "started",
    when: (job) => job.state === "WAITING",
    effect: (job) => [`${name(job)} starts now and no longer waits for other jobs.`],
  },
  priority: {
    label: "Change the priority", icon: "up", done: "changed",
    when: isLive,
    effect: (job) => [`The waiting tasks of ${name(job)} move to the queue of the new priority. Running tasks continue.`],
    inputs: (job) => [{ id: "priority", label: "Priority", type: "number", value: String(job.priority), read: Number }],
  },
  groups: {
    label: "Change the worker groups", icon: "workers", route: "group", done: "changed",
    when: isLive,
    effect: (job) => [`The waiting tasks of ${name(job)} move to the new groups. Running tasks continue.`],
    inputs: (job) => [{ id: "workerGroups", label: "Worker groups, separated by commas", type: "text", value: (job.workerGroups || []).join(", "), read: (text) => text.split(/[\s,]+/).filter(Boolean) }],
  },
  limits: {
    label: "Change retries and limits", icon: "up", route: "change", done: "changed",
    when: isLive,
    effect: (job) => [`The values apply to tasks of ${name(job)} that are not leased yet, and to later runs. Fields that are empty do not change.`],
    inputs: () => [
      { id: "maxTaskCount", label: "Most tasks of a step at once", type: "number", value: "", read: Number },
      { id: "failedRetries", label: "Retries of a failed task", type: "number", value: "", read: Number },
      { id: "timeoutSeconds", label: "Seconds that an attempt may take", type: "number", value: "", read: Number },
    ],
  },
  rerunAll: {
    label: "Rerun everything", icon: "redo", route: "rerun", body: { scope: "all" }, done: "started again",
    when: (job) => ENDED.includes(job.state),
    effect: (job) => [`Run ${job.run + 1} of ${name(job)} starts from the beginning.`, all(job)],
  },
  forceSuccess: {
    label: "Force success", icon: "check", route: "force", body: { state: "SUCCESS" }, danger: true, done: "forced to SUCCESS",
    when: (job) => job.state !== "SUCCESS" && job.state !== "DELETED",
    effect: (job) => [`${name(job)} ends as SUCCESS without running what is left.`, "Jobs that depend on it continue."],
  },
  forceFailed: {
    label: "Force failure", icon: "close", route: "force", body: { state: "FAILED" }, danger: true, done: "forced to FAILED",
    when: (job) => !["FAILED", "DELETED"].includes(job.state),
    effect: (job) => [`${name(job)} ends as FAILED.`, running(job, "is stopped", "are stopped")],
  },
  remove: {
    label: "Delete", icon: "trash", danger: true, method: "DELETE", done: "deleted",
    when: (job) => job.state !== "DELETED",
    effect: (job) => [isLive(job) ? `${name(job)} is killed and deleted.` : `${name(job)} is deleted.`, "Its name and trigger can be used again."],
    options: [{ id: "full", label: "Also delete its rows, files and logs; this cannot be undone" }],
  },
};

const name = (job) => `${job.jobName}/${job.trigger}`;
const sum = (job, ...states) => (job.steps || []).reduce((total, step) => total + states.reduce((part, state) => part + (step.counts?.[state] || 0), 0), 0);

function running(job, one, many) {
  const count = sum(job, "RUNNING");
  return count ? `${plural(count, "running task")} ${count === 1 ? one : many}.` : "";
}

function open(job) {
  const count = sum(job, "READY", "SUSPENDED", "WAITING");
  const steps = (job.steps || []).filter((step) => step.state === "WAITING").length;
  const parts = [count && plural(count, "waiting task"), steps && plural(steps, "step")].filter(Boolean);
  return parts.length ? `${parts.join(" and ")} will not start.` : "";
}

function failed(job) {
  const steps = (job.steps || []).filter((step) => ["FAILED", "KILLED", "SKIPPED"].includes(step.state));
  const tasks = sum(job, "FAILED", "KILLED");
  if (!steps.length) return "";
  const names = steps.slice(0, 5).map((step) => step.stepName).join(", ");
  const more = steps.length > 5 ? ` and ${number(steps.length - 5)} more` : "";
  return `${tasks ? `${plural(tasks, "task")} that did not succeed` : "What did not run"} will run, in ${plural(steps.length, "step")}: ${names}${more}.`;
}

function all(job) {
  const tasks = (job.steps || []).reduce((total, step) => total + (step.totalWork || 0), 0);
  return job.steps?.length ? `All ${plural(job.steps.length, "step")} run again, ${plural(tasks, "task")}.` : "";
}
