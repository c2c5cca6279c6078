// The graph of definitions that wait for each other, with the last state of each.

import { h } from "../core/vdom.js";
import { url } from "../core/api.js";
import { clock, plural } from "../core/format.js";
import { href } from "../core/router.js";
import { graph, graphState } from "../parts/graph.js";
import { empty, pending } from "../parts/messages.js";

export const title = () => "Job graph";

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
    return [
      h("div", { class: "title" }, h("h1", {}, "Job graph"), h("span", { class: "muted" }, `${plural(shown.length, "definition")} with dependencies, ${plural(nodes.length - shown.length, "other")}`)),
      h("div", { class: "card" }, shown.length ? graph(state, shown.map((node) => drawn(node, edges, last.get(node.jobName))), { label: "Dependencies between definitions", source: recent.data || resource.data }) : empty("No definition depends on another.")),
    ];
  };
}

function drawn(node, edges, job) {
  const detail = !node.defined ? "not saved yet" : job ? `${job.trigger}, ${clock(job.createTime, { seconds: false })}` : node.schedules.length ? "scheduled" : "has not run";
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
