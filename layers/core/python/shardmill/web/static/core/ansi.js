// ANSI sequences in logs: colours become classes; every other sequence is removed and never executed.

const SEQUENCE = /\u001b\[([0-9;]*)m|\u001b\[[0-9;?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|\u001b[@-_]|[\u0000-\u0008\u000b-\u001f\u007f]/g;
const COLOURS = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];

/** Split a line into [{text, className}]. `state` carries the colours from line to line. */
export function segments(line, state) {
  const found = [];
  let at = 0;
  for (const match of line.matchAll(SEQUENCE)) {
    if (match.index > at) found.push({ text: line.slice(at, match.index), className: classes(state) });
    if (match[1] !== undefined) apply(match[1], state);
    at = match.index + match[0].length;
  }
  if (at < line.length) found.push({ text: line.slice(at), className: classes(state) });
  return found;
}

export const plain = (text) => text.replace(SEQUENCE, "");

function apply(codes, state) {
  const numbers = codes.split(";").map(Number);
  for (let at = 0; at < numbers.length; at += 1) {
    const code = numbers[at];
    if (code === 0) Object.assign(state, { colour: "", back: "", bold: false, faint: false, underline: false });
    else if (code === 1) state.bold = true;
    else if (code === 2) state.faint = true;
    else if (code === 4) state.underline = true;
    else if (code === 22) state.bold = state.faint = false;
    else if (code === 24) state.underline = false;
    else if (code === 39) state.colour = "";
    else if (code >= 30 && code <= 37) state.colour = COLOURS[code - 30];
    else if (code >= 90 && code <= 97) state.colour = COLOURS[code - 90];
    else if (code === 49) state.back = "";
    else if (code >= 40 && code <= 47) state.back = COLOURS[code - 40];
    else if (code >= 100 && code <= 107) state.back = COLOURS[code - 100];
    else if (code === 38 || code === 48) at += extended(numbers, at, code === 38 ? "colour" : "back", state);
  }
}

/** A colour of the palette of 256, of which the first 16 have names; returns how many numbers it takes. */
function extended(numbers, at, name, state) {
  if (numbers[at + 1] !== 5) return 4;
  state[name] = numbers[at + 2] < 16 ? COLOURS[numbers[at + 2] % 8] : "";
  return 2;
}

const classes = (state) => [state.colour && !state.back && `ansi-${state.colour}`, state.back && `ansi-on ansi-on-${state.back}`, state.bold && "ansi-bold", state.faint && "ansi-faint", state.underline && "ansi-underline"].filter(Boolean).join(" ");
