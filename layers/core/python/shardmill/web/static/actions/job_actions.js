// The control actions on a job. A dry run describes the effect of each.

import { LIVE } from "../core/states.js";

const ENDED = ["SUCCESS", "FAILED", "KILLED"];
const isLive = (job) => LIVE.has(job.state);

/** The actions on a job: when each is possible, its request, and the fields of its confirmation. */
export const ACTIONS = {
  suspend: {
    label: "Suspend", icon: "pause", done: "suspended",
    when: (job) => isLive(job) && job.state !== "SUSPENDED",
    options: [{ id: "letFinish", label: "Let running tasks finish" }],
  },
  resume: {
    label: "Resume", icon: "play", done: "resumed",
    when: (job) => job.state === "SUSPENDED",
  },
  kill: {
    label: "Kill", icon: "stop", danger: true, done: "killed",
    when: isLive,
  },
  rerun: {
    label: "Rerun failed", icon: "redo", done: "started again",
    when: (job) => ["FAILED", "KILLED", "SUSPENDED"].includes(job.state),
  },
  rerunChanged: {
    label: "Rerun with other parameters", icon: "redo", route: "rerun", done: "started again", params: true, scopes: ["operate", "submit"],
    when: (job) => (ENDED.includes(job.state) || job.state === "SUSPENDED") && Object.keys(job.params || {}).length > 0,
    choices: (job) => [{ id: "scope", label: "Run again", options: [...(job.state === "SUCCESS" ? [] : [["", "what failed; tasks that succeeded keep their results"]]), ["all", "everything"]] }],
  },
  rerunDependents: {
    label: "Rerun with dependent jobs", icon: "redo", route: "rerun", body: { dependents: true }, done: "started again",
    when: (job) => ENDED.includes(job.state) && Boolean(job.dataTime),
  },
  recompute: {
    label: "Rerun from a step", icon: "redo", done: "started again",
    when: (job) => ENDED.includes(job.state) && job.steps?.length > 0,
    choices: (job) => [{ id: "stepName", label: "Step", options: job.steps.map((step) => [step.stepName, `${step.stepName} (${step.state.toLowerCase()})`]) }],
  },
  start: {
    label: "Start without dependencies", icon: "play", done: "started",
    when: (job) => job.state === "WAITING" && !job.waitingFor?.some((sentence) => /^waits for a free slot/.test(sentence)),
  },
  priority: {
    label: "Change the priority", icon: "up", done: "changed",
    when: isLive,
    hint: "Enter another value.",
    inputs: (job) => [{ id: "priority", label: "Priority", type: "number", value: String(job.priority), read: Number }],
  },
  groups: {
    label: "Change the worker groups", icon: "workers", route: "group", done: "changed",
    when: isLive,
    hint: "Enter other groups.",
    inputs: (job) => [{ id: "workerGroups", label: "Worker groups, separated by commas", type: "text", value: (job.workerGroups || []).join(", "), read: (text) => text.split(/[\s,]+/).filter(Boolean) }],
  },
  limits: {
    label: "Change retries and limits", icon: "up", route: "change", done: "changed",
    when: isLive,
    hint: "Enter the values that are to change. Fields that are empty do not.",
    inputs: () => [
      { id: "maxTaskCount", label: "Maximum tasks of a step at once", type: "number", value: "", read: Number },
      { id: "failedRetries", label: "Retries of a failed task", type: "number", value: "", read: Number },
      { id: "timeoutSeconds", label: "Seconds that an attempt may take", type: "number", value: "", read: Number },
    ],
  },
  rerunAll: {
    label: "Rerun everything", icon: "redo", route: "rerun", body: { scope: "all" }, done: "started again",
    when: (job) => ENDED.includes(job.state),
  },
  forceSuccess: {
    label: "Force success", icon: "check", route: "force", body: { state: "SUCCESS" }, danger: true, done: "forced to SUCCESS",
    when: (job) => job.state !== "SUCCESS" && job.state !== "DELETED",
  },
  forceFailed: {
    label: "Force failure", icon: "close", route: "force", body: { state: "FAILED" }, danger: true, done: "forced to FAILED",
    when: (job) => !["FAILED", "DELETED"].includes(job.state),
  },
  remove: {
    label: "Delete", icon: "trash", danger: true, route: "delete", method: "DELETE", done: "deleted",
    when: (job) => job.state !== "DELETED",
    options: [{ id: "full", label: "Also delete its rows, files and logs; this cannot be undone" }],
  },
};
