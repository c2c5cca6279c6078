// The permissions of the token: its scopes and their limits, read once after each sign-in.

import { get } from "./api.js";
import { getToken, isSignedIn, onSession } from "./session.js";

const LIMITS = ["definitions", "applications", "groups"];
const RETRY_MS = 15_000;
let caller = null;

/** The user of the token; null until the API has answered. */
export const signedInAs = () => caller?.name ?? null;

/** Read the scopes of the token now and after each sign-in; `changed` is called with each answer. */
export async function watchPermissions(changed) {
  onSession(() => load(changed));
  await load(changed);
}

async function load(changed) {
  caller = null;
  if (!isSignedIn()) return;
  const token = getToken();
  const answer = await get("/v1/tokens/self").catch((error) => ({ name: "", scopes: [], error }));
  if (getToken() !== token) return;
  caller = answer;
  if (answer.error && ![401, 403].includes(answer.error.status)) setTimeout(() => whenVisible(() => load(changed)), RETRY_MS);
  changed();
}

/** Call now, or when the page is shown again: a hidden page sends few requests. */
function whenVisible(run) {
  if (document.hidden) document.addEventListener("visibilitychange", () => whenVisible(run), { once: true });
  else run();
}

/**
 * Whether the token has a scope for something: {definition, application, groups}, or for everything if it is absent.
 * An undefined field is not known; the API then decides.
 */
export function allows(scope, resource) {
  return (caller?.scopes || []).some((given) => {
    const grant = typeof given === "string" ? { scope: given } : given;
    return [scope, "admin"].includes(grant.scope) && covers(grant, resource);
  });
}

function covers(grant, resource) {
  if (!LIMITS.some((name) => grant[name])) return true;
  if (!resource) return false;
  const { definition, application, groups } = resource;
  if (grant.definitions && definition !== undefined && !grant.definitions.some((pattern) => matches(pattern, definition))) return false;
  if (grant.applications && application !== undefined && !grant.applications.includes(application)) return false;
  return !grant.groups || groups === undefined || groups.every((name) => grant.groups.includes(name));
}

const matches = (pattern, name) => (pattern.endsWith("*") ? name.startsWith(pattern.slice(0, -1)) : name === pattern);

/** The resource of a job, for `allows`. */
export const ofJob = (job) => ({ definition: job.jobName, application: job.appName || "", groups: job.workerGroups });
