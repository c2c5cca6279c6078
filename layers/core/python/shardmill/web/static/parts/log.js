// The log of an attempt: follows it while it grows, with colours and search.

import { h, memo } from "../core/vdom.js";
import { plain, segments } from "../core/ansi.js";
import { number } from "../core/format.js";

const MOST_LINES = 5_000;

/** The log that was read so far. Keep it with the view, one for each stream and attempt. */
export const logState = () => ({ read: false, text: "", offset: 0, complete: false, search: "", at: 0, follow: true, lines: [], parsed: "", drawn: memo(drawnLines) });

/** Take in a part of the log. Returns whether there was more. */
export function append(state, part) {
  if (part.offset === state.offset && state.complete === part.complete && state.read) return false;
  state.read = true;
  state.text += part.text;
  state.offset = part.offset;
  state.complete = part.complete;
  return true;
}

export function log(state, { label, redraw }) {
  if (state.parsed !== state.text) {
    const colours = {};
    state.parsed = state.text;
    state.all = state.text.split("\n");
    if (state.all.at(-1) === "") state.all.pop();
    state.lines = state.all.slice(-MOST_LINES).map((line) => shown(line, colours));
  }
  const first = Math.max(0, (state.all?.length || 0) - state.lines.length);
  const wanted = state.search.toLowerCase();
  const hits = wanted ? state.lines.flatMap((line, index) => (line.plain.includes(wanted) ? [index] : [])) : [];
  state.at = hits.length ? ((state.at % hits.length) + hits.length) % hits.length : 0;
  const move = (step) => {
    state.at += step;
    state.follow = false;
    redraw();
  };
  const scrolled = (event) => {
    const el = event.target;
    const end = el.scrollHeight - el.scrollTop - el.clientHeight < 30;
    if (end !== state.follow && !wanted) {
      state.follow = end;
      redraw();
    }
  };
  const settle = (el) => {
    if (hits.length) el.querySelector(".line.here")?.scrollIntoView({ block: "nearest" });
    else if (state.follow) el.scrollTop = el.scrollHeight;
  };
  return [
    h(
      "div",
      { class: "filters" },
      h("input", { type: "search", "aria-label": "Search in the log", placeholder: "Search in the log", value: state.search, oninput: (event) => {
        state.search = event.target.value;
        state.at = 0;
        redraw();
      }, onkeydown: (event) => event.key === "Enter" && move(event.shiftKey ? -1 : 1) }),
      wanted && h("span", { class: "muted", role: "status" }, hits.length ? `${state.at + 1} of ${number(hits.length)}` : "not found"),
      hits.length > 1 && [h("button", { onclick: () => move(-1) }, "Previous"), h("button", { onclick: () => move(1) }, "Next")],
      h("span", { class: "spacer" }),
      !state.complete && h("label", { class: "check" }, h("input", { type: "checkbox", checked: state.follow, onchange: (event) => {
        state.follow = event.target.checked;
        redraw();
      } }), "Follow"),
      state.read && h("span", { class: "muted" }, state.complete ? "complete" : "live"),
    ),
    first > 0 && h("p", { class: "hint" }, `The last ${number(MOST_LINES)} of ${number(state.all.length)} lines`),
    h(
      "div",
      { class: "log", tabindex: "0", role: "log", "aria-label": label, "aria-live": "off", onscroll: scrolled, mount: settle, update: settle },
      state.lines.length ? state.drawn(state.lines, first, wanted, hits[state.at]) : h("p", { class: "hint" }, !state.read ? "Loading the log." : state.complete ? "The log is empty." : "Nothing was written yet."),
    ),
  ];
}

/** A line as a terminal shows it: text after a carriage return replaces the text before it. */
function shown(line, colours) {
  const ended = line.replace(/\r+$/, "");
  const start = ended.lastIndexOf("\r") + 1;
  if (start) segments(ended.slice(0, start), colours);
  return { parts: segments(ended.slice(start), colours), plain: plain(ended.slice(start)).toLowerCase() };
}

const drawnLines = (lines, first, wanted, here) =>
  lines.map((line, index) => h("div", { key: first + index, class: `line ${here === index ? "here" : ""}` }, h("span", { class: "line-number", "aria-hidden": "true" }, String(first + index + 1)), h("span", {}, line.parts.map((part) => marked(part, wanted)))));

/** Text with the colours of its ANSI sequences. */
export function coloured(text) {
  const colours = {};
  return segments(text, colours).map((part) => h("span", { class: part.className || undefined }, part.text));
}

function marked({ text, className }, wanted) {
  if (!wanted || !text.toLowerCase().includes(wanted)) return h("span", { class: className || undefined }, text);
  const pieces = [];
  let at = 0;
  for (let hit = text.toLowerCase().indexOf(wanted); hit >= 0; hit = text.toLowerCase().indexOf(wanted, at)) {
    pieces.push(text.slice(at, hit), h("mark", {}, text.slice(hit, hit + wanted.length)));
    at = hit + wanted.length;
  }
  return h("span", { class: className || undefined }, pieces, text.slice(at));
}
