// The difference between two texts, line by line.

import { h } from "../core/vdom.js";

const MOST_CELLS = 4_000_000;
const AROUND = 3;

/** The lines of both texts: [kind, line], with kind " ", "-" or "+". */
export function lines(before, after) {
  const [a, b] = [before.split("\n"), after.split("\n")];
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const middle = changed(a.slice(start, a.length - end), b.slice(start, b.length - end));
  return [...a.slice(0, start).map((line) => [" ", line]), ...middle, ...a.slice(a.length - end).map((line) => [" ", line])];
}

/** Lines that differ, by the longest common subsequence. */
function changed(a, b) {
  if (a.length * b.length > MOST_CELLS) return [...a.map((line) => ["-", line]), ...b.map((line) => ["+", line])];
  const width = b.length + 1;
  const longest = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      longest[i * width + j] = a[i] === b[j] ? longest[(i + 1) * width + j + 1] + 1 : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
    }
  }
  const found = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      found.push([" ", a[i]]);
      i += 1;
      j += 1;
    } else if (j < b.length && (i === a.length || longest[i * width + j + 1] > longest[(i + 1) * width + j])) {
      found.push(["+", b[j]]);
      j += 1;
    } else {
      found.push(["-", a[i]]);
      i += 1;
    }
  }
  return found;
}

export function diff(before, after) {
  const all = lines(before, after);
  const near = (at) => all.slice(Math.max(0, at - AROUND), at + AROUND + 1).some(([kind]) => kind !== " ");
  if (all.every(([kind]) => kind === " ")) return h("p", { class: "hint pad" }, "There is no difference.");
  return h("pre", { class: "diff", tabindex: "0", "aria-label": "Difference" }, all.map(([kind, line], at) => (near(at) ? h("div", { key: at, class: kind === "+" ? "added" : kind === "-" ? "removed" : "" }, `${kind} ${line}`) : null)));
}
