// The tasks of a step in columns, as the API returns them for many tasks at once.

import { LETTERS } from "./states.js";
import { url } from "./api.js";

export const gridPath = (parts, step, { run, from } = {}) => `${url([...parts, "steps", step, "tasks"])}:grid${query({ run, from })}`;

function query(given) {
  const entries = Object.entries(given).filter(([, value]) => value);
  return entries.length ? `?${new URLSearchParams(entries)}` : "";
}

/** The tasks of grids; a grid with running tasks is cached for a second, because their durations grow. */
const known = new WeakMap();

/** The tasks of a grid: {index, state, attempt, failures, start, ms, worker}. A running task has run until now. */
export function tasksOf(grid, now = Date.now()) {
  const second = grid.states.includes("R") ? Math.floor(now / 1000) : 0;
  if (known.get(grid)?.second === second) return known.get(grid).tasks;
  const tasks = Array.from(grid.states, (letter, at) => {
    const state = LETTERS[letter];
    const start = grid.starts[at];
    return {
      index: grid.firstIndex + at,
      state,
      attempt: grid.attempts[at],
      failures: grid.failures[at],
      start,
      ms: state === "RUNNING" ? Math.max(0, now - start) : grid.spans[at],
      worker: grid.workers[grid.workerOf[at]]?.name || "",
    };
  });
  known.set(grid, { second, tasks });
  return tasks;
}

/** The step that a tab shows: the one in the address, else the first with failures, the first in progress, or the first. */
export function chosenStep(job, name) {
  return (
    job.steps.find((step) => step.stepName === name) ||
    job.steps.find((step) => step.state === "FAILED") ||
    job.steps.find((step) => step.state === "RUNNING") ||
    job.steps[0]
  );
}
