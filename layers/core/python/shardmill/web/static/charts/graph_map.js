// The map of a graph that is larger than its drawing: all nodes by state, and the part in sight; click or drag to go there.

import { h } from "../core/vdom.js";

const [WIDTH, HEIGHT, LEAST] = [190, 110, 24];
const SHARES = { SUCCESS: "success", TOLERATED: "success", FAILED: "failed", RUNNING: "running", KILLED: "killed", SUSPENDED: "suspended" };

/** The map; `size`: of a node, `goTo(x, y)` brings a place of the graph into the middle. */
export function graphMap(plan, nodes, size, goTo) {
  const byShare = new Map();
  for (const node of nodes) {
    const { x, y } = plan.places.get(node.id);
    const share = SHARES[node.state] || "all";
    byShare.set(share, `${byShare.get(share) || ""}M${x} ${y}h${size.width}v${size.height}h${-size.width}z`);
  }
  const scale = Math.min(WIDTH / plan.width, HEIGHT / plan.height);
  const point = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    goTo(((event.clientX - box.left) * plan.width) / box.width, ((event.clientY - box.top) * plan.height) / box.height);
  };
  return h(
    "svg",
    { class: "graph-map", hidden: true, "aria-hidden": "true", style: { width: `${Math.max(plan.width * scale, LEAST)}px`, height: `${Math.max(plan.height * scale, LEAST)}px` }, viewBox: `0 0 ${plan.width} ${plan.height}`, preserveAspectRatio: "none", onpointerdown: point, onpointermove: (event) => event.buttons && point(event) },
    ["all", "success", "killed", "suspended", "running", "failed"].filter((share) => byShare.has(share)).map((share) => h("path", { key: share, class: `share-${share}`, d: byShare.get(share) })),
    h("rect", { key: "sight", class: "in-sight" }),
  );
}

/** Show which part of the graph is in sight; without a map if that is all of it. */
export function placeMap(map, { plan, x, y, scale, el }) {
  const [left, top] = [Math.max(0, -x / scale), Math.max(0, -y / scale)];
  const [right, bottom] = [Math.min(plan.width, (el.clientWidth - x) / scale), Math.min(plan.height, (el.clientHeight - y) / scale)];
  map.toggleAttribute("hidden", left === 0 && top === 0 && right === plan.width && bottom === plan.height);
  const sight = map.querySelector(".in-sight");
  for (const [name, value] of [["x", left], ["y", top], ["width", Math.max(0, right - left)], ["height", Math.max(0, bottom - top)]]) sight.setAttribute(name, value);
}
