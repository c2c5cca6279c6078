// The frame of every view: navigation, search, the age of the data, and the banner of a lost connection.

import { h } from "../core/vdom.js";
import { connection, refreshAll } from "../core/live.js";
import { clock, relative } from "../core/format.js";
import { bind } from "../core/keys.js";
import { allows, signedInAs } from "../core/permissions.js";
import { go } from "../core/router.js";
import { signOut } from "../core/session.js";
import { theme, toggleTheme } from "../core/theme.js";
import { glyph } from "../parts/icons.js";
import { toasts } from "../parts/toast.js";
import { openKeys } from "./key_list.js";
import { openPalette } from "./palette.js";

const OLD_MS = 45_000;
const SECTIONS = [
  { id: "now", label: "Now", address: "#/", key: "g n", views: ["now"] },
  { id: "jobs", label: "Jobs", address: "#/jobs", key: "g j", views: ["jobs", "job", "task", "compare"] },
  { id: "definitions", label: "Definitions", address: "#/definitions", key: "g d", views: ["definitions", "definition", "submit", "define"] },
  { id: "schedules", label: "Schedules", address: "#/schedules", key: "g s", views: ["schedules", "schedule"] },
  { id: "dependencies", label: "Job graph", address: "#/dependencies", key: "g g", views: ["dependencies"] },
  { id: "workers", label: "Workers", address: "#/workers", key: "g w", views: ["workers"] },
  { id: "letters", label: "Dead letters", address: "#/dead-letters", key: "g l", views: ["dead_letters"], scope: "operate" },
  { id: "tokens", label: "Tokens", address: "#/tokens", key: "g t", views: ["tokens"], scope: "admin" },
];

export function bindGlobalKeys() {
  bind("/", "Search and commands", openPalette);
  bind("?", "List the keys", openKeys);
  bind("t", "Switch between light and dark", toggleTheme);
  bind("r", "Refresh now", refreshAll);
  for (const section of SECTIONS) bind(section.key, `Go to ${section.label}`, () => go(section.address));
}

export function shell(place, content) {
  return [
    h("a", { class: "skip", href: "#content", onclick: skip }, "Skip to the content"),
    h("nav", { class: "nav", "aria-label": "Sections" }, h("a", { class: "brand", href: "#/" }, mark(), h("span", {}, "Shardmill")), SECTIONS.filter(({ scope }) => !scope || allows(scope)).map((section) => navigation(section, place))),
    h("div", { class: "frame" }, topbar(), lost(), h("main", { id: "content", class: `view view-${place.view || "none"}`, tabindex: "-1" }, content)),
    toasts(),
  ];
}

const mark = () =>
  h("svg", { viewBox: "0 0 32 32", class: "mark", "aria-hidden": "true" }, h("path", { d: "M5 16h6M11 16l5-8h11M11 16h16M11 16l5 8h11" }));

function navigation(section, place) {
  const here = section.views.includes(place.view);
  return h("a", { key: section.id, href: section.address, class: here ? "here" : "", "aria-current": here ? "page" : undefined, title: `${section.label} (${section.key})` }, glyph(section.id), h("span", {}, section.label));
}

function skip(event) {
  event.preventDefault();
  document.getElementById("content").focus();
}

function topbar() {
  const dark = theme() === "dark";
  return h(
    "header",
    { class: "topbar" },
    h("button", { class: "search", onclick: openPalette, "aria-label": "Search and commands" }, glyph("search"), h("span", {}, "Search", h("span", { class: "hide-small" }, " or run a command")), h("kbd", {}, "/")),
    h("span", { class: "spacer" }),
    age(),
    h("button", { class: "quiet", onclick: toggleTheme, "aria-label": dark ? "Use light colours" : "Use dark colours", title: "Light or dark (t)" }, glyph(dark ? "sun" : "moon")),
    h("button", { class: "quiet", onclick: openKeys, "aria-label": "Keys", title: "Keys (?)" }, glyph("keys")),
    h("button", { class: "quiet", onclick: signOut, "aria-label": "Sign out", title: signedInAs() ? `Signed in as ${signedInAs()}; sign out` : "Sign out" }, glyph("exit")),
  );
}

/** Whether the data is live or old. */
function age() {
  if (!connection.lastSuccess) return null;
  const old = !connection.reached || Date.now() - connection.lastSuccess > OLD_MS;
  const text = old ? `as of ${clock(connection.lastSuccess)}` : "live";
  return h("span", { class: `age ${old ? "old" : ""}`, title: `Last answer: ${clock(connection.lastSuccess)}` }, h("i", { "aria-hidden": "true" }), text);
}

function lost() {
  if (connection.reached) return null;
  const since = connection.lastSuccess ? ` What you see is from ${clock(connection.lastSuccess)}.` : "";
  return h("div", { class: "lost", role: "alert" }, `Shardmill does not answer.${since} The next attempt is ${relative(Math.max(connection.retryAt, Date.now() + 1000))}.`, h("button", { onclick: refreshAll }, "Try now"));
}
