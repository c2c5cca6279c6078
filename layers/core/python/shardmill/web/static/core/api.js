// Requests to the API: the token, conditional requests, and problems as errors.

import { getToken, signOut } from "./session.js";

/** API Gateway answers within 30 seconds: after that, a read without an answer is repeated. Actions are not repeated, because they may have taken effect. */
const LONGEST_READ_MS = 35_000;

/** An answer that is not a success, with the code and the faults of its problem document. */
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail || body.title || body.message || `the API answered ${status}`);
    this.status = status;
    this.code = body.code || "";
    this.faults = body.errors || body.faults || [];
  }
}

/** The API cannot be reached. */
export class Unreachable extends Error {
  constructor() {
    super("Shardmill does not answer");
  }
}

/** Send a request; `etag`: of the known content, `match`: the version to change. Returns {status, data, etag}; `data` is undefined for 304 and 204. */
export async function send(method, path, body, etag, match) {
  const headers = { authorization: `Bearer ${getToken()}` };
  if (body !== undefined) headers["content-type"] = "application/json";
  if (etag) headers["if-none-match"] = etag;
  if (match) headers["if-match"] = match;
  let answer;
  const limit = new AbortController();
  const timer = method === "GET" ? setTimeout(() => limit.abort(), LONGEST_READ_MS) : 0;
  try {
    answer = await fetch(path, {
      signal: limit.signal,
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
      credentials: "omit",
    });
  } catch {
    throw new Unreachable();
  } finally {
    clearTimeout(timer);
  }
  if (answer.status === 304) return { status: 304, etag };
  const data = await content(answer);
  if (answer.status === 401) signOut();
  if (answer.status === 502 || answer.status === 504) throw new Unreachable();
  if (!answer.ok) throw new Problem(answer.status, data || {});
  return { status: answer.status, data, etag: answer.headers.get("etag") };
}

async function content(answer) {
  const text = await answer.text();
  if (!text) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return { detail: `the API answered ${answer.status}` };
  }
}

export const get = async (path) => (await send("GET", path)).data;
export const post = async (path, body) => (await send("POST", path, body ?? {})).data;
export const del = async (path) => (await send("DELETE", path)).data;

/** A path from its parts, each escaped; parameters that are empty are left out. */
export function url(parts, query = {}) {
  const path = `/v1/${parts.map(encodeURIComponent).join("/")}`;
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

/** The path of an action on a resource, such as `…:kill`. */
export const action = (parts, name) => `${url(parts)}:${name}`;
