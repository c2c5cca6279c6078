// The form that asks for a token.

import { h } from "../core/vdom.js";
import { findIssuer, goToIssuer } from "../core/oidc.js";
import { signIn } from "../core/session.js";

const form = { token: "", remember: false, error: "", busy: false };
let issuer;

export function showSignInError(text) {
  form.error = text;
}

export function signInForm(redraw) {
  if (issuer === undefined) {
    issuer = null;
    findIssuer().then((found) => {
      issuer = found;
      redraw();
    });
  }
  async function submit(event) {
    event.preventDefault();
    form.busy = true;
    form.error = "";
    redraw();
    form.error = await check(form.token.trim());
    form.busy = false;
    if (!form.error) {
      signIn(form.token, form.remember);
      form.token = "";
    }
    redraw();
  }
  return h(
    "main",
    { class: "sign-in" },
    h("h1", {}, "Shardmill"),
    issuer && h("div", { class: "card" }, h("button", { class: "primary", type: "button", onclick: () => goToIssuer(issuer) }, "Sign in with your organization")),
    h(
      "form",
      { onsubmit: submit, class: "card" },
      h("label", { for: "token" }, "Token"),
      h("input", { id: "token", type: "password", autocomplete: "off", value: form.token, oninput: (event) => (form.token = event.target.value), mount: (el) => el.focus() }),
      h("label", { class: "check" }, h("input", { type: "checkbox", checked: form.remember, onchange: (event) => (form.remember = event.target.checked) }), "Keep the token in this tab until it is closed"),
      h("p", { class: "hint" }, "Otherwise the token stays in memory, and a reload asks for it again."),
      form.error && h("p", { class: "error", role: "alert" }, form.error),
      h("button", { class: "primary", disabled: form.busy }, form.busy ? "Checking" : "Sign in"),
    ),
  );
}

/** Try the token. Returns an error message, or an empty text. */
async function check(token) {
  if (!token) return "Enter a token.";
  try {
    const answer = await fetch("/v1/jobs?limit=1", { headers: { authorization: `Bearer ${token}` }, credentials: "omit" });
    if (answer.status === 403) return "This token has no scope read.";
    return answer.ok ? "" : "This token is not valid.";
  } catch {
    return "Shardmill does not answer. Try again in a moment.";
  }
}
