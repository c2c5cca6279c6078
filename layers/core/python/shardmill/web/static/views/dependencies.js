// The graph of definitions that wait for each other, with the last state of each.

import { h } from "../core/vdom.js";
import { url } from "../core/api.js";
import { clock, plural } from "../core/format.js";
import { href } from "../core/router.js";
import { graph, graphState } from "../charts/graph.js";
import { empty, pending } from "../parts/messages.js";

export const title = () => "Job graph";

const MOST_LOOKED_UP = 10;

export default function dependencies(context) {
  const state = graphState();
  return function render() {
    const resource = context.live(`${url(["definitions"])}:graph`, { every: 30 });
    const recent = context.live(url(["jobs"], { limit: 500 }), { every: 10 });
    const message = pending(resource, "the graph");
    if (message) return message;
    const { nodes, edges } = resource.data;
    const last = new Map();
    for (const job of recent.data?.items || []) if (!last.has(job.jobName)) last.set(job.jobName, job);
    const linked = new Set(edges.flatMap((edge) => [edge.parent, edge.child]));
    const shown = nodes.filter((node) => linked.has(node.jobName));
    const isPart = Boolean(recent.data?.cursor);
    if (isPart) lookUp(context, shown.filter((node) => node.defined && !last.has(node.jobName)), last);
    const drawn = shown.map((node) => nodeOf(node, edges, last.get(node.jobName), isPart));
    return [
      h("div", { class: "title" }, h("h1", {}, "Job graph"), h("span", { class: "muted" }, `${plural(shown.length, "definition")} with dependencies, ${plural(nodes.length - shown.length, "other")}`)),
      h("div", { class: "card" }, shown.length ? graph(state, drawn, { label: "Dependencies between definitions", source: JSON.stringify(drawn) }) : empty("No definition depends on another.")),
    ];
  };
}

/** Find the last jobs of definitions that have none among the newest. */
function lookUp(context, missing, last) {
  for (const { jobName } of missing.slice(0, MOST_LOOKED_UP)) {
    const found = context.live(url(["jobs"], { jobName, limit: 1 }), { every: 300 }).data;
    if (found) last.set(jobName, found.items[0] || null);
  }
}

/** `job`: the last one of the definition; null if it has none, undefined if that is not known. */
function nodeOf(node, edges, job, isPart) {
  const none = node.schedules.length ? "scheduled" : isPart && job === undefined ? "no recent job" : "has not run";
  const detail = !node.defined ? "not saved yet" : job ? `${job.trigger}, ${clock(job.createTime, { seconds: false })}` : none;
  return {
    id: node.jobName,
    after: edges.filter((edge) => edge.child === node.jobName).map((edge) => edge.parent),
    state: job?.state || "INIT",
    title: node.jobName,
    detail: detail.length > 21 ? `${detail.slice(0, 20)}…` : detail,
    done: 0,
    href: job ? href(["jobs", job.jobName, job.trigger]) : href(["definitions", node.jobName]),
    label: `${node.jobName}: ${job ? `last job ${job.trigger} is ${job.state}` : detail}`,
  };
}
