// The token: in memory, and in this tab's session storage only if the user agreed. No cookies.

import { tokenFromCode } from "./oidc.js";

const KEY = "shardmill.token";
const SIGN_IN = "/_shardmill/sign-in";
const LOOPBACK = ["127.0.0.1", "localhost"];

let token = stored();
const listeners = new Set();

function stored() {
  try {
    return sessionStorage.getItem(KEY) || "";
  } catch {
    return "";
  }
}

export const getToken = () => token;
export const isSignedIn = () => token !== "";

export function signIn(value, remember) {
  token = value.trim();
  if (remember) sessionStorage.setItem(KEY, token);
  else forget();
  changed();
}

export function signOut() {
  token = "";
  forget();
  changed();
}

export function onSession(listener) {
  listeners.add(listener);
}

function changed() {
  for (const listener of listeners) listener();
}

function forget() {
  try {
    sessionStorage.removeItem(KEY);
  } catch {
    // the browser keeps nothing for this page
  }
}

/** After a sign-in at an OIDC issuer, the address has a code. Returns an error message, or an empty text. */
export async function signInWithCode() {
  try {
    token = (await tokenFromCode()) || token;
    return "";
  } catch (error) {
    return error.message;
  }
}

/** Under `shardmill dev`, the address itself signs the page in. */
export async function signInOnLaptop() {
  if (!LOOPBACK.includes(location.hostname)) return false;
  try {
    const answer = await fetch(SIGN_IN, { method: "POST", headers: { "x-shardmill": "1" } });
    if (!answer.ok) return false;
    token = (await answer.json()).token;
    return true;
  } catch {
    return false;
  }
}
