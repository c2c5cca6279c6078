// The command palette: go to a view, a definition or a job by typing part of its name, or run a command.

import { h } from "../core/vdom.js";
import { get, url } from "../core/api.js";
import { bound } from "../core/keys.js";
import { allows } from "../core/permissions.js";
import { go, href } from "../core/router.js";
import { icon } from "../core/states.js";
import { openDialog } from "../parts/dialog.js";
import { glyph } from "../parts/icons.js";

const SHOWN = 12;

export function openPalette() {
  if (document.querySelector("dialog[open]")) return;
  const state = { text: "", at: 0, definitions: [], jobs: [], loading: true };
  openDialog("Search and commands", (close, redraw) => content(state, close, redraw), { className: "palette" });
}

async function load(state, redraw) {
  const [definitions, jobs] = await Promise.allSettled([get(url(["definitions"], { limit: 500 })), get(url(["jobs"], { limit: 200 }))]);
  state.definitions = definitions.value?.items || [];
  state.jobs = jobs.value?.items || [];
  state.loading = false;
  redraw();
}

function content(state, close, redraw) {
  const found = matches(state);
  state.at = Math.max(0, Math.min(state.at, found.length - 1));
  const choose = (entry) => {
    close();
    entry?.run();
  };
  const keydown = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      state.at += step;
      redraw();
    } else if (event.key === "Enter") {
      event.preventDefault();
      choose(found[state.at]);
    }
  };
  const type = (event) => {
    state.text = event.target.value;
    state.at = 0;
    redraw();
  };
  return [
    h("input", {
      type: "text", role: "combobox", "aria-expanded": "true", "aria-controls": "found", "aria-label": "Search and commands",
      "aria-activedescendant": found.length ? `found-${state.at}` : undefined,
      placeholder: "Name of a job, a definition or a command", value: state.text, oninput: type, onkeydown: keydown,
      mount: (el) => {
        el.focus();
        load(state, redraw);
      },
    }),
    h("ul", { id: "found", role: "listbox", "aria-label": "Found" }, found.map((entry, index) => row(entry, index, index === state.at, choose))),
    !found.length && h("p", { class: "hint", role: "status" }, state.loading ? "Loading jobs and definitions" : "Nothing found."),
  ];
}

const row = (entry, index, here, choose) =>
  h("li", { id: `found-${index}`, role: "option", "aria-selected": here ? "true" : "false", onclick: () => choose(entry), update: (el) => here && el.scrollIntoView({ block: "nearest" }) }, entry.icon, h("span", {}, entry.label), h("small", {}, entry.kind));

function matches(state) {
  const words = state.text.toLowerCase().split(/\s+/).filter(Boolean);
  return entries(state)
    .filter((entry) => words.every((word) => entry.label.toLowerCase().includes(word)))
    .slice(0, SHOWN);
}

function entries(state) {
  return [
    ...bound().filter(({ keys }) => keys !== "/").map(({ label, run, keys }) => ({ label, run, kind: keys, icon: glyph("right") })),
    ...(allows("define") ? [{ label: "New definition", kind: "command", icon: glyph("plus"), run: () => go("#/new-definition") }] : []),
    ...state.definitions.map(({ jobName }) => ({ label: jobName, kind: "definition", icon: glyph("definitions"), run: () => go(href(["definitions", jobName])) })),
    ...state.definitions.map(({ jobName }) => ({ label: `Submit ${jobName}`, kind: "command", icon: glyph("play"), run: () => go(href(["definitions", jobName, "submit"])) })),
    ...state.jobs.map((job) => ({ label: `${job.jobName} ${job.trigger}`, kind: "job", icon: icon(job.state, job.state), run: () => go(href(["jobs", job.jobName, job.trigger])) })),
  ];
}
