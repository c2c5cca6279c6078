// The last runs of a definition as a grid: a column for each job, a row for each step.

import { h } from "../core/vdom.js";
import { url } from "../core/api.js";
import { between, clock, duration, relative } from "../core/format.js";
import { href } from "../core/router.js";
import { icon } from "../core/states.js";
import { empty, pending } from "../parts/messages.js";
import { paged } from "../parts/pages.js";

/** The grid; `state` keeps the page of a definition with many steps. */
export function runsGrid(context, jobName, state) {
  const resource = context.live(url(["definitions", jobName, "runs"], { limit: 25 }), { every: 8 });
  const message = pending(resource, "the runs");
  if (message) return message;
  const { steps, runs: newestFirst } = resource.data;
  if (!newestFirst.length) return h("div", { class: "card" }, empty("No job of this definition has run yet."));
  const runs = [...newestFirst].reverse();
  const { shown, controls } = paged(state, steps.map((name, row) => ({ name, row })), { what: "Steps", text: ({ name, row }) => `${name} ${runs.at(-1).states[row] || ""}`, redraw: context.redraw });
  const longest = Math.max(...runs.map(took), 1);
  const grid = h(
    "div",
    { class: "card scroll-x", tabindex: "0", mount: showNewest },
    controls,
    h(
      "table",
      { class: "runs" },
      h(
        "thead",
        {},
        h("tr", { class: "bars" }, h("th", { scope: "col" }, "Duration", longest > 1 && h("small", { class: "muted" }, ` up to ${duration(longest)}`)), runs.map(({ job }) => h("td", { key: job.id, title: duration(took({ job })) }, h("i", { class: `run-bar tone-${job.state.toLowerCase()}`, style: { height: `${Math.max(3, (56 * took({ job })) / longest)}px` } })))),
        h("tr", {}, h("th", { scope: "row" }, "Job"), runs.map(({ job }) => h("th", { key: job.id, scope: "col" }, h("a", { href: href(["jobs", job.jobName, job.trigger]), title: `${job.trigger}, ${clock(job.createTime)}` }, icon(job.state, `${job.trigger}: ${job.state}`))))),
      ),
      h("tbody", {}, shown.map(({ name, row }) => h("tr", { key: name }, h("th", { scope: "row", title: name }, name), runs.map(({ job, states }) => h("td", { key: job.id }, states[row] && h("a", { href: href(["jobs", job.jobName, job.trigger], { tab: "tasks", step: name }) }, icon(states[row], `${name} of ${job.trigger}: ${states[row]}`))))))),
    ),
  );
  return h("div", { class: "runs-and-list" }, grid, h("section", { class: "card" }, h("h2", {}, "Last jobs"), h("ul", { class: "list" }, newestFirst.map(({ job }) => entry(job)))));
}

/** Scroll to the newest job, which is at the right, once the elements around the grid have their sizes. */
const showNewest = (el) =>
  requestAnimationFrame(() => {
    el.scrollLeft = el.scrollWidth;
  });

/** A job in the list beside the grid. */
const entry = (job) =>
  h("li", { key: job.id, title: job.notes || undefined }, icon(job.state, job.state), h("a", { class: "mono", href: href(["jobs", job.jobName, job.trigger]) }, job.trigger), h("span", { class: "muted" }, `${job.startedTime ? `${duration(between(job.startedTime, job.completedTime))}, ` : ""}${relative(job.createTime)}`));

const took = ({ job }) => between(job.startedTime, job.completedTime) || 0;
