// The files of a job: submitted files and outputs of tasks, with downloads.

import { h } from "../core/vdom.js";
import { get, url } from "../core/api.js";
import { bytes } from "../core/format.js";
import { glyph } from "../parts/icons.js";
import { empty, pending, problem } from "../parts/messages.js";

export function filesTab(context) {
  const more = { items: [], cursor: undefined, error: null };
  const path = ({ parts }) => url([...parts, "files"], { limit: 200 });
  return {
    paths: (tab) => [path(tab)],
    render(tab) {
      const resource = context.live(path(tab), { every: 60 });
      const message = pending(resource, "the files");
      if (message) return message;
      const cursor = more.cursor === undefined ? resource.data.cursor : more.cursor;
      const items = [...resource.data.items, ...more.items];
      if (!items.length) return h("div", { class: "card" }, empty("The job has no files."));
      const next = async () => {
        try {
          const answer = await get(url([...tab.parts, "files"], { limit: 200, cursor }));
          more.items.push(...answer.items);
          more.cursor = answer.cursor;
        } catch (error) {
          more.error = error;
        }
        context.redraw();
      };
      return h("div", { class: "card scroll-x", tabindex: "0" }, table(items), cursor && h("p", {}, h("button", { onclick: next }, "Show more")), more.error && problem(more.error));
    },
  };
}

const table = (items) =>
  h("table", { class: "table-files" }, h("thead", {}, h("tr", {}, ["Name", "From", "Size", ""].map((name) => h("th", { scope: "col", class: name === "Size" ? "number" : "" }, name)))), h("tbody", {}, items.map(row)));

function row(file, index) {
  const from = file.stepName ? `${file.stepName}${file.index === undefined || file.index === null ? "" : ` task ${file.index}`}` : "submitted";
  return h("tr", { key: index }, h("td", { title: from }, file.name), h("td", { class: "muted nowrap" }, from), h("td", { class: "number" }, bytes(file.size)), h("td", {}, file.url && h("a", { class: "button", href: file.url, download: file.name, rel: "noreferrer", "aria-label": `Download ${file.name}` }, glyph("download"), h("span", { class: "hide-small" }, "Download"))));
}
