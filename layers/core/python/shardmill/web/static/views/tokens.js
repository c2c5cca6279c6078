// Tokens with their owners, scopes and expiry; create, rotate and revoke them.

import { h } from "../core/vdom.js";
import { action, del, post, url } from "../core/api.js";
import { clock, plural, relative } from "../core/format.js";
import { refreshAll } from "../core/live.js";
import { badge } from "../core/states.js";
import { confirm } from "../actions/confirm.js";
import { createToken, showSecret } from "../actions/token_form.js";
import { glyph } from "../parts/icons.js";
import { empty, pending } from "../parts/messages.js";

export const title = () => "Tokens";

const OVERLAPS = [["86400", "a day"], ["3600", "an hour"], ["604800", "a week"], ["0", "no time: they stop at once"]];

export default function tokens(context) {
  return function render() {
    const resource = context.live(url(["tokens"], { limit: 500 }), { every: 30 });
    const message = pending(resource, "the tokens");
    if (message) return [h("h1", {}, "Tokens"), message];
    const items = [...resource.data.items].sort((a, b) => a.name.localeCompare(b.name));
    return [
      h("div", { class: "title" }, h("h1", {}, "Tokens"), h("span", { class: "muted", role: "status" }, plural(items.length, "token")), h("div", { class: "actions" }, h("button", { class: "primary", onclick: createToken }, glyph("plus"), "Create a token"))),
      h("p", { class: "hint" }, "Each worker, program and person has a token of their own, with the scopes that they need. The admin token of the deployment is not in this list."),
      h("div", { class: "card scroll-x", tabindex: "0" }, items.length ? table(items) : empty("There are no tokens besides the admin token.")),
    ];
  };
}

const table = (items) =>
  h("table", { class: "table-tokens" }, h("thead", {}, h("tr", {}, ["Name", "Scopes", "Owner", "Created", "Expires", "Last use", "Actions"].map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, items.map(row)));

function row(token) {
  const expired = token.expires && Date.parse(token.expires) < Date.now();
  return h(
    "tr",
    { key: token.id },
    h("td", {}, token.name, h("br", {}), h("small", { class: "muted mono" }, token.id)),
    h("td", { class: "wrap" }, token.scopes.map((each) => h("div", { key: text(each) }, text(each)))),
    h("td", {}, token.owner),
    h("td", { class: "nowrap muted", title: `by ${token.createUser}` }, clock(token.createTime, { seconds: false })),
    h("td", { class: "nowrap" }, expired ? badge("FAILED", "expired") : token.expires ? relative(token.expires) : h("span", { class: "muted" }, "never"), token.overlapUntil && h("div", { class: "hint" }, `earlier secret until ${clock(token.overlapUntil, { seconds: false })}`)),
    h("td", { class: "nowrap muted" }, token.lastUseTime ? relative(token.lastUseTime) : "not used yet"),
    h("td", { class: "nowrap" }, h("div", { class: "buttons" }, h("button", { "aria-label": `Rotate token ${token.name}`, onclick: () => rotate(token) }, glyph("redo"), "Rotate"), h("button", { class: "danger", "aria-label": `Revoke token ${token.name}`, onclick: () => revoke(token) }, glyph("trash"), "Revoke"))),
  );
}

/** A scope with its limits, as text. */
function text(given) {
  if (typeof given === "string") return given;
  const limits = ["definitions", "applications", "groups"].filter((name) => given[name]).map((name) => `${name} ${given[name].join(", ")}`);
  return `${given.scope} for ${limits.join("; ")}`;
}

function rotate(token) {
  const form = { overlap: OVERLAPS[0][0] };
  let issued = null;
  return confirm(`Rotate token ${token.name}`, {
    lines: () => [`${token.name} gets a new secret, which is shown once.`, `Earlier secrets stay valid for ${OVERLAPS.find(([value]) => value === form.overlap)[1]}.`],
    fields: (redraw) => h("div", { class: "field" }, h("label", { for: "overlap" }, "Earlier secrets stay valid for"), h("select", { id: "overlap", onchange: (event) => {
      form.overlap = event.target.value;
      redraw();
    } }, OVERLAPS.map(([value, label]) => h("option", { value, selected: value === form.overlap }, label)))),
    button: "Rotate", done: "The token is rotated.", reason: false,
    run: async () => {
      issued = await post(action(["tokens", token.id], "rotate"), { overlapSeconds: Number(form.overlap) });
      refreshAll();
    },
  }).then(() => issued && showSecret(issued));
}

const revoke = (token) =>
  confirm(`Revoke token ${token.name}`, {
    lines: [`Requests with the token ${token.name} of ${token.owner} are rejected within a minute.`, "Workers that use it stop taking tasks. This cannot be undone."],
    button: "Revoke", done: "The token is revoked.", danger: true, reason: false,
    run: async () => {
      await del(url(["tokens", token.id]));
      refreshAll();
    },
  });
