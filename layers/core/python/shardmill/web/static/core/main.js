// The start of the page: sign in, then show the view of the address, and again whenever the address changes.

import { patch } from "./vdom.js";
import { live, onConnection, refreshAll } from "./live.js";
import { watchPermissions } from "./permissions.js";
import { parse } from "./router.js";
import { isSignedIn, onSession, signInOnLaptop, signInWithCode } from "./session.js";
import { applyTheme } from "./theme.js";
import { bindGlobalKeys, shell } from "../frame/shell.js";
import { problem, waiting } from "../parts/messages.js";
import { signInForm, showSignInError } from "../frame/sign_in.js";

const root = document.getElementById("app");
let current = null;
let drawing = 0;

/** Draw on the next frame, however often this is called. */
function redraw() {
  if (!drawing) drawing = requestAnimationFrame(draw);
}

function draw() {
  drawing = 0;
  if (!isSignedIn()) {
    patch(root, signInForm(redraw));
    return;
  }
  patch(root, shell(current, content()));
}

function content() {
  if (!current.view) return problem(new Error("There is no view at this address."), "Go to the start", "#/");
  if (current.error) return problem(current.error, "Reload the page", location.href);
  return current.render ? current.render() : waiting("Loading the view");
}

/** The context of a view: its parameters, live data that ends with it, and functions to draw again. */
function contextOf(place) {
  const resources = new Map();
  const cleanups = [];
  return {
    params: place.params,
    query: place.query,
    redraw,
    /** Live data of a path; call it for each path at every drawing. */
    live(path, options = {}) {
      if (!resources.has(path)) resources.set(path, live(path, { changed: redraw, ...options }));
      return resources.get(path);
    },
    /** End the live data of paths that a view no longer shows. */
    keepOnly(paths) {
      for (const [path, resource] of resources) {
        if (!paths.includes(path)) {
          resource.stop();
          resources.delete(path);
        }
      }
    },
    onLeave: (cleanup) => cleanups.push(cleanup),
    leave() {
      for (const resource of resources.values()) resource.stop();
      for (const cleanup of cleanups) cleanup();
    },
  };
}

/** A new view starts with the focus on its content, unless the focus is outside of the content. */
function focusContent() {
  const content = document.getElementById("content");
  const focused = document.activeElement;
  if (content && (focused === document.body || content.contains(focused))) content.focus({ preventScroll: true });
}

async function navigate() {
  const place = parse(location.hash);
  if (current && current.view === place.view && JSON.stringify(current.params) === JSON.stringify(place.params)) {
    current.context.query = place.query;
    redraw();
    return;
  }
  current?.context.leave();
  if (current) focusContent();
  const next = { ...place, context: contextOf(place), render: null, error: null };
  current = next;
  redraw();
  if (!place.view) return;
  try {
    const module = await import(`../views/${place.view}.js`);
    if (current !== next) return;
    next.title = module.title?.(place.params) || "";
    next.render = module.default(next.context);
    document.title = next.title ? `${next.title} · Shardmill` : "Shardmill";
    window.scrollTo(0, 0);
  } catch (error) {
    next.error = error instanceof TypeError && /import/.test(error.message) ? new Error("A part of the page did not load. Shardmill may have a new version: reload the page.") : error;
    if (!(error instanceof TypeError)) console.error(error);
  }
  redraw();
}

async function start() {
  applyTheme();
  root.replaceChildren();
  if (!isSignedIn()) showSignInError(await signInWithCode());
  if (!isSignedIn()) await signInOnLaptop();
  bindGlobalKeys(redraw);
  onSession(() => {
    redraw();
    if (isSignedIn()) refreshAll();
  });
  onConnection(redraw);
  watchPermissions(redraw);
  window.addEventListener("hashchange", navigate);
  window.addEventListener("popstate", navigate);
  window.addEventListener("themechange", redraw);
  setInterval(() => !document.hidden && redraw(), 1000);
  if (!location.hash) history.replaceState(null, "", "#/");
  await navigate();
}

start();
