// The line icons of navigation and buttons, in a box of 16 by 16.

import { h } from "../core/vdom.js";

const PATHS = {
  now: "M2 9h3l2-5 3 9 2-4h2",
  jobs: "M2.5 4h11M2.5 8h11M2.5 12h7",
  definitions: "M4 2h6l3 3v9H4zM10 2v3h3M6.5 8.5h4M6.5 11h4",
  schedules: "M2.5 4h11v9.5h-11zM2.5 7h11M5.5 2v3M10.5 2v3",
  dependencies: "M2 6.5h4v3H2zM10 2.5h4v3h-4zM10 10.5h4v3h-4zM6 8h2V4h2M8 8v4h2",
  workers: "M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5h.1M5 11h.1",
  letters: "M2 4h12v8.5H2zM2 4l6 5 6-5",
  tokens: "M10.5 2.5a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM8.3 7.7 3 13M4.5 11.5 6.5 13.5",
  search: "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9zM10.5 10.5 14 14",
  sun: "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M13 3l-1 1M4 12l-1 1",
  moon: "M13 9.6A5.6 5.6 0 0 1 6.4 3a5.6 5.6 0 1 0 6.6 6.6z",
  keys: "M2 4.5h12v7H2zM4.5 7h.1M7 7h.1M9.5 7h.1M12 7h.1M5 9.5h6",
  exit: "M9.5 2.5h-6v11h6M7 8h7M11.5 5.5 14 8l-2.5 2.5",
  play: "M5 3l8 5-8 5z",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  stop: "M4 4h8v8H4z",
  redo: "M13 4v3.5H9.5M12.6 7.2A5 5 0 1 0 13 9.5",
  download: "M8 2.5v7.5M4.8 7 8 10.2 11.2 7M3 13.5h10",
  plus: "M8 3v10M3 8h10",
  fit: "M2.5 6V2.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10",
  minus: "M3 8h10",
  compare: "M5 2.5v11M11 2.5v11M2.5 5 5 2.5 7.5 5M8.5 11l2.5 2.5 2.5-2.5",
  more: "M3.5 8h.1M8 8h.1M12.5 8h.1",
  up: "M8 13V3M4 7l4-4 4 4",
  trash: "M3 4.5h10M6 4.5v-2h4v2M4.5 4.5l.6 9h5.8l.6-9",
  right: "M6 3.5 10.5 8 6 12.5",
  left: "M10 3.5 5.5 8 10 12.5",
  check: "M3.5 8.5 6.5 11.5 12.5 4.5",
  close: "M4 4l8 8M12 4l-8 8",
};

export const glyph = (name) =>
  h("svg", { class: "glyph", viewBox: "0 0 16 16", "aria-hidden": "true" }, h("path", { d: PATHS[name] }));
