// The list of keys.

import { h } from "../core/vdom.js";
import { bound } from "../core/keys.js";
import { heading, openDialog } from "../parts/dialog.js";

export const openKeys = () =>
  openDialog("Keys", (close) => [
    heading("Keys", close),
    h(
      "dl",
      { class: "keys" },
      bound().map(({ keys, label }) => h("div", {}, h("dt", {}, keys.split(" ").map((key) => h("kbd", {}, key))), h("dd", {}, label))),
      h("div", {}, h("dt", {}, h("kbd", {}, "Ctrl"), h("kbd", {}, "K")), h("dd", {}, "Search and commands")),
      h("div", {}, h("dt", {}, h("kbd", {}, "Esc")), h("dd", {}, "Close a dialog")),
    ),
  ]);
