// The states of jobs, steps and tasks: each has a colour, a shape and a word, never a colour alone.

import { h } from "./vdom.js";

export const JOB_STATES = ["INIT", "WAITING", "QUEUED", "RUNNING", "SUSPENDED", "SUCCESS", "FAILED", "KILLED", "DELETED"];
export const LIVE = new Set(["INIT", "WAITING", "QUEUED", "READY", "RUNNING", "SUSPENDED"]);
export const TASK_STATES = ["SUCCESS", "FAILED", "KILLED", "RUNNING", "SUSPENDED", "READY", "WAITING"];
/** The letters of task states in a task grid. */
export const LETTERS = { W: "WAITING", Q: "READY", R: "RUNNING", P: "SUSPENDED", S: "SUCCESS", F: "FAILED", K: "KILLED" };

// Each shape is a path in a box of 16 by 16, filled unless it begins with "o", which is an outline.
const SHAPES = {
  SUCCESS: [["circle"], ["line", "M4.8 8.3l2.2 2.2 4.2-4.8"]],
  TOLERATED: [["path", "M8 1.2 15 14.2H1z"], ["line", "M5.4 10.2l1.9 1.9 3.3-3.9"]],
  FAILED: [["path", "M5 1h6l4 4v6l-4 4H5l-4-4V5z"], ["line", "M5.4 5.4l5.2 5.2M10.6 5.4l-5.2 5.2"]],
  KILLED: [["path", "M2 2h12v12H2z"], ["line", "M5.5 8h5"]],
  RUNNING: [["ring"], ["path", "M6.3 4.8 11.4 8l-5.1 3.2z"]],
  QUEUED: [["ring"], ["dot"]],
  READY: [["ring"], ["dot"]],
  WAITING: [["ring"], ["stroke", "M8 4.6V8l2.3 1.6"]],
  SUSPENDED: [["circle"], ["line", "M6.2 5.2v5.6M9.8 5.2v5.6"]],
  SKIPPED: [["dashed"], ["stroke", "M5 11 11 5"]],
  INIT: [["dashed"]],
  DELETED: [["dashed"], ["stroke", "M5.4 5.4l5.2 5.2M10.6 5.4l-5.2 5.2"]],
};

const DRAW = {
  circle: () => h("circle", { cx: 8, cy: 8, r: 7, class: "fill" }),
  ring: () => h("circle", { cx: 8, cy: 8, r: 6.2, class: "ring" }),
  dashed: () => h("circle", { cx: 8, cy: 8, r: 6.2, class: "ring dashed" }),
  dot: () => h("circle", { cx: 8, cy: 8, r: 2.4, class: "fill" }),
  path: (d) => h("path", { d, class: "fill" }),
  line: (d) => h("path", { d, class: "cut" }),
  stroke: (d) => h("path", { d, class: "ring" }),
};

export const tone = (state) => `tone-${String(state).toLowerCase()}`;

/** The parts of a state's shape, to be put into an SVG of 16 by 16. */
export const shape = (state) => (SHAPES[state] || SHAPES.INIT).map(([kind, d]) => DRAW[kind](d));

export const icon = (state, label) =>
  h("svg", { class: `state-icon ${tone(state)}`, viewBox: "0 0 16 16", ...(label ? { role: "img", "aria-label": label } : { "aria-hidden": "true" }) }, shape(state));

export const badge = (state, text) => h("span", { class: `badge ${tone(state)}` }, icon(state), text || word(state));

export const word = (state) => String(state).charAt(0) + String(state).slice(1).toLowerCase();
