// A definition as its document, and its steps as the nodes of a graph.

import { plural } from "../core/format.js";

/** The fields that an answer has and a document does not. */
const ADDED = ["version", "createTime", "updateTime", "submitUser", "updateUser", "suspended"];
/** Fields whose values belong to the user: an empty value is meaningful there. */
const OWN = ["params", "content", "items", "userattr", "environ"];
/** Values that fields have if they are left out, besides null and empty ones. */
const DEFAULTS = { canFail: false, failFast: false, runIfSkipped: false, phase: 0, startShardId: 0, toleratedFailures: 0, nonzero: false, optional: false, byUnits: false, uniqueAliveInstance: false, auth: false, noretry: false };

/** Defaults of the definition itself; a step that has such a field overrides it. */
const OF_DEFINITION = { priority: 1, failedRetries: 0, failedInterval: 3, failedBackoff: 1, rejectRetries: 10, rejectInterval: 3, lostRetries: 5, onFailure: "fail", expiredSeconds: 86400, onDeadline: "mark" };
/** Defaults of a step. */
const OF_STEP = { stepType: "SHARD", sharding: 1 };

const isEmpty = (value) => value === null || (typeof value === "object" && Object.keys(value).length === 0);

/** A document without the fields that have their default. */
function short(value) {
  if (Array.isArray(value)) return value.map(short);
  if (value === null || typeof value !== "object") return value;
  const kept = Object.entries(value).map(([name, field]) => [name, OWN.includes(name) ? field : short(field)]);
  return Object.fromEntries(kept.filter(([name, field]) => !isEmpty(field) && field !== DEFAULTS[name]));
}

const without = (value, defaults) => Object.fromEntries(Object.entries(value).filter(([name, field]) => field !== defaults[name]));

export function documentOf(define) {
  const own = Object.fromEntries(Object.entries(without(define, OF_DEFINITION)).filter(([name]) => !ADDED.includes(name)));
  return JSON.stringify(short({ ...own, steps: define.steps.map((step) => without(step, OF_STEP)) }), null, 2);
}

export function stepNode({ stepName, dependentSteps, phase, type = "noop", sharding }) {
  const tasks = typeof sharding === "number" ? sharding > 1 && plural(sharding, "task") : sharding && "tasks by parameter";
  return { id: stepName, after: dependentSteps, phase, state: "INIT", title: stepName, detail: [type, tasks].filter(Boolean).join(", "), href: location.hash, label: `${stepName}, ${type}` };
}
