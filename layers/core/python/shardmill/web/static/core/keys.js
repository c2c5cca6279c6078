// Keys: single letters and sequences such as "g j". They do nothing while the user types in a field.

const bindings = new Map();
let prefix = "";
let forget = 0;

/** Bind a key to a function. Returns a function that removes the binding. */
export function bind(keys, label, run) {
  const binding = { keys, label, run };
  bindings.set(keys, binding);
  return () => bindings.get(keys) === binding && bindings.delete(keys);
}

export const bound = () => [...bindings.values()];

const isTyping = (target) => target instanceof Element && (target.matches("input, textarea, select") || target.isContentEditable);

document.addEventListener("keydown", (event) => {
  if (event.key === "k" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    bindings.get("/")?.run();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || document.querySelector("dialog[open]")) return;
  const keys = prefix ? `${prefix} ${event.key}` : event.key;
  clearTimeout(forget);
  prefix = "";
  const found = bindings.get(keys);
  if (found) {
    event.preventDefault();
    found.run();
  } else if ([...bindings.keys()].some((each) => each.startsWith(`${keys} `))) {
    prefix = keys;
    forget = setTimeout(() => (prefix = ""), 1200);
  }
});
