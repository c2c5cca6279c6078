// Dead letters: messages and events that failed in every attempt, the reason, and actions to redrive or delete them.

import { h } from "../core/vdom.js";
import { action, del, get, post, url } from "../core/api.js";
import { bytes, clock, plural, relative } from "../core/format.js";
import { refreshAll } from "../core/live.js";
import { allows } from "../core/permissions.js";
import { confirm } from "../actions/confirm.js";
import { heading, openDialog } from "../parts/dialog.js";
import { glyph } from "../parts/icons.js";
import { empty, pending, problem, waiting } from "../parts/messages.js";
import { show } from "../parts/values.js";

export const title = () => "Dead letters";

const PAGE = 200;
const SOURCES = { submit: "Event that submits a job", notification: "Notification", task: "Message of a task queue" };
const AGAIN = {
  submit: "The event is sent to the submit function again. If its job exists already, nothing changes.",
  notification: "The notification is sent to its receivers again, with the same id.",
};

export default function deadLetters(context) {
  return function render() {
    const resource = context.live(url(["dead-letters"], { limit: PAGE }), { every: 60 });
    const message = pending(resource, "the dead letters");
    if (message) return [h("h1", {}, "Dead letters"), message];
    const { items, cursor } = resource.data;
    return [
      h("div", { class: "title" }, h("h1", {}, "Dead letters"), h("span", { class: "muted", role: "status" }, `${plural(items.length, "letter")}${cursor ? ", the newest" : ""}`)),
      h("p", { class: "hint" }, "Messages and events that failed in every attempt. Redrive one after its cause is fixed. Shardmill keeps them for 90 days."),
      h("div", { class: "card scroll-x", tabindex: "0" }, items.length ? table(items) : empty("There are no dead letters.")),
    ];
  };
}

const table = (items) =>
  h("table", { class: "table-letters" }, h("thead", {}, h("tr", {}, ["Time", "What", "Reason", "Size", "Actions"].map((name) => h("th", { scope: "col", class: name === "Size" ? "number" : "" }, name)))), h("tbody", {}, items.map(row)));

const row = (letter) =>
  h(
    "tr",
    { key: letter.id },
    h("td", { class: "nowrap", title: clock(letter.time, { date: "always" }) }, relative(letter.time)),
    h("td", {}, SOURCES[letter.source] || letter.source),
    h("td", { class: "wrap" }, letter.reason),
    h("td", { class: "number" }, bytes(letter.size)),
    h("td", { class: "nowrap" }, h("div", { class: "buttons" }, h("button", { "aria-label": `Show the dead letter of ${clock(letter.time)}`, onclick: () => openLetter(letter) }, "Show"), buttons(letter))),
  );

const buttons = (letter) =>
  allows("operate") && [
    AGAIN[letter.source] && h("button", { key: "redrive", onclick: () => redrive(letter) }, glyph("redo"), "Redrive"),
    h("button", { key: "delete", class: "danger", onclick: () => remove(letter) }, glyph("trash"), "Delete"),
  ];

function openLetter(letter) {
  const state = { content: null, error: null };
  return openDialog("Dead letter", (close, redraw) => [
    heading("Dead letter", close),
    h(
      "div",
      { class: "body", mount: () => read(letter, state, redraw) },
      h("dl", { class: "facts" }, [["What", SOURCES[letter.source]], ["Time", clock(letter.time, { date: "always" })]].map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
      h("p", { class: "why tone-failed" }, letter.reason),
      state.error ? problem(state.error) : state.content ? h("pre", { class: "document", tabindex: "0", "aria-label": "Payload" }, show(state.content.payload)) : waiting("Loading the payload"),
    ),
  ], { className: "wide" });
}

async function read(letter, state, redraw) {
  try {
    state.content = await get(url(["dead-letters", letter.id]));
  } catch (error) {
    state.error = error;
  }
  redraw();
}

const redrive = (letter) =>
  confirm("Redrive the dead letter", {
    lines: [AGAIN[letter.source], "It is removed from this list. If it fails again, it returns as another dead letter."],
    button: "Redrive", done: "The dead letter was sent again.", reason: false,
    run: async () => {
      await post(action(["dead-letters", letter.id], "redrive"));
      refreshAll();
    },
  });

const remove = (letter) =>
  confirm("Delete the dead letter", {
    lines: [`${SOURCES[letter.source]} of ${clock(letter.time)} is deleted with its payload. This cannot be undone.`],
    button: "Delete", done: "The dead letter is deleted.", danger: true, reason: false,
    run: async () => {
      await del(url(["dead-letters", letter.id]));
      refreshAll();
    },
  });
