// Addresses: `#/jobs/name/trigger?tab=graph` names a view, its parameters and its settings.

const ROUTES = [
  ["/", "now"],
  ["/jobs", "jobs"],
  ["/jobs/:jobName/:trigger", "job"],
  ["/jobs/:jobName/:trigger/steps/:step/:index", "task"],
  ["/jobs/:jobName/:trigger/compare", "compare"],
  ["/definitions", "definitions"],
  ["/definitions/:jobName", "definition"],
  ["/definitions/:jobName/submit", "submit"],
  ["/definitions/:jobName/edit", "define"],
  ["/new-definition", "define"],
  ["/schedules", "schedules"],
  ["/schedules/:jobName/:id", "schedule"],
  ["/dependencies", "dependencies"],
  ["/workers", "workers"],
  ["/dead-letters", "dead_letters"],
  ["/tokens", "tokens"],
];

const compiled = ROUTES.map(([pattern, view]) => {
  const names = [...pattern.matchAll(/:(\w+)/g)].map((match) => match[1]);
  return { view, names, regexp: new RegExp(`^${pattern.replace(/:\w+/g, "([^/]+)")}$`) };
});

/** The view, parameters and query of an address. `view` is null if there is none. */
export function parse(hash) {
  const [path, search] = (hash.replace(/^#/, "") || "/").split("?", 2);
  const query = Object.fromEntries(new URLSearchParams(search || ""));
  for (const { view, names, regexp } of compiled) {
    const match = regexp.exec(path);
    if (match) {
      const params = Object.fromEntries(names.map((name, index) => [name, decode(match[index + 1])]));
      return { view, params, query, path };
    }
  }
  return { view: null, params: {}, query, path };
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The address of a view, for links. */
export function href(parts, query = {}) {
  const path = `#/${parts.map(encodeURIComponent).join("/")}`;
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

export const go = (address) => {
  location.hash = address;
};

/** Change settings in the address: a new entry of the history, or (`replace`) the present one. */
export function setQuery(changes, { replace = false } = {}) {
  const { path, query } = parse(location.hash);
  const merged = { ...query, ...changes };
  const given = Object.entries(merged).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const address = `#${path}${given.length ? `?${new URLSearchParams(given)}` : ""}`;
  if (address === location.hash) return;
  if (replace) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  window.dispatchEvent(new Event("hashchange"));
}
