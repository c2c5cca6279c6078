// Data that stays fresh: each resource is polled with conditional requests, within a budget of requests a minute.

import { Problem, send, Unreachable } from "./api.js";
import { isSignedIn } from "./session.js";

/**
 * The most reads a minute that the page makes by itself, so that an open page stays below 30 requests. Requests
 * of the user are not limited: actions, their dry runs, and one reading of the view after each.
 */
const BUDGET = { visible: 24, hidden: 2 };
const HIDDEN_SECONDS = 30;
const SLOWEST = 4;
const RETRY_SECONDS = [2, 4, 8, 15, 30];

const resources = new Set();
const cache = new Map();
const status = { failures: 0, retryAt: 0, lastSuccess: 0, reached: true };
const listeners = new Set();
const times = [];
let hiddenPoll = 0;

export const connection = status;

/** Call `listener` when the connection is lost or found again. */
export function onConnection(listener) {
  listeners.add(listener);
}

/** Start to poll a path. `changed` is called with each new state of the resource. */
export function live(path, { every = 5, changed }) {
  const known = cache.get(path);
  const resource = {
    path,
    every,
    changed,
    data: known?.data,
    etag: known?.etag,
    at: known?.at ?? 0,
    error: null,
    loading: !known,
    slow: 1,
    due: 0,
    busy: false,
    stop: () => resources.delete(resource),
    refresh: () => {
      resource.slow = 1;
      resource.due = 0;
      return load(resource);
    },
  };
  resources.add(resource);
  load(resource);
  return resource;
}

/** The number of reads in the last minute that no action of the user caused. */
function readsLastMinute() {
  const from = Date.now() - 60_000;
  while (times.length && times[0] < from) times.shift();
  return times.length;
}

async function load(resource, asked = false) {
  if (resource.busy || !isSignedIn()) return;
  resource.busy = true;
  if (!asked) times.push(Date.now());
  try {
    const answer = await send("GET", resource.path, undefined, resource.etag);
    reached();
    resource.at = Date.now();
    resource.loading = false;
    if (answer.status === 304) {
      resource.slow = Math.min(resource.slow * 1.3, SLOWEST);
    } else {
      resource.slow = 1;
      resource.error = null;
      resource.data = answer.data;
      resource.etag = answer.etag;
      remember(resource);
    }
    if (resources.has(resource)) resource.changed(resource);
  } catch (error) {
    failed(resource, error);
  } finally {
    resource.busy = false;
    resource.due = Date.now() + resource.every * resource.slow * 1000;
  }
}

function remember({ path, data, etag, at }) {
  cache.delete(path);
  cache.set(path, { data, etag, at });
  if (cache.size > 30) cache.delete(cache.keys().next().value);
}

function failed(resource, error) {
  if (error instanceof Unreachable || (error instanceof Problem && error.status >= 500)) {
    status.reached = false;
    const wait = RETRY_SECONDS[Math.min(status.failures, RETRY_SECONDS.length - 1)];
    status.failures += 1;
    status.retryAt = Date.now() + wait * 1000;
    tell();
    return;
  }
  resource.loading = false;
  resource.error = error;
  if (resources.has(resource)) resource.changed(resource);
}

function reached() {
  status.lastSuccess = Date.now();
  status.failures = 0;
  if (!status.reached) {
    status.reached = true;
    for (const resource of resources) resource.due = 0;
  }
  tell();
}

function tell() {
  for (const listener of listeners) listener(status);
}

/** Read again now, after an action of the user or when the page becomes visible. */
export function refreshAll() {
  status.retryAt = 0;
  for (const resource of resources) {
    resource.slow = 1;
    resource.due = 0;
  }
  if (document.hidden) return poll();
  for (const resource of resources) load(resource, true);
}

function poll() {
  const now = Date.now();
  if (!isSignedIn() || now < status.retryAt) return;
  if (!status.reached) status.retryAt = now + RETRY_SECONDS[RETRY_SECONDS.length - 1] * 1000;
  if (document.hidden) {
    if (now - hiddenPoll < HIDDEN_SECONDS * 1000 || readsLastMinute() >= BUDGET.hidden) return;
    hiddenPoll = now;
  }
  const due = [...resources].filter((each) => !each.busy && each.due <= now).sort((a, b) => a.due - b.due);
  const most = document.hidden || !status.reached ? 1 : BUDGET.visible - readsLastMinute();
  for (const resource of due.slice(0, Math.max(most, 0))) load(resource);
}

setInterval(poll, 500);
document.addEventListener("visibilitychange", () => !document.hidden && refreshAll());
