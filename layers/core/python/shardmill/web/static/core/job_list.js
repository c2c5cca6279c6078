// The jobs of a list: pages that were loaded, merged by id, newest first. The newest page and the page in sight stay live.

import { url } from "./api.js";

const FIRST = 200;
const MORE = 500;

export function jobList(context) {
  let filters = null;
  let first = "";
  let pages = [];
  let known = new Map();
  let sorted = [];
  let seen = new Map();

  /** Ask for the jobs that pass the API's filters: jobName, state, submitUser. */
  function select(wanted) {
    const text = JSON.stringify(wanted);
    if (text !== filters) {
      filters = text;
      first = url(["jobs"], { ...wanted, limit: FIRST });
      pages = [first];
      known = new Map();
      seen = new Map();
      sorted = [];
    }
    for (const path of watched()) merge(path);
    return { items: sorted, loading: context.live(first).loading, error: context.live(first).error, complete: complete() };
  }

  function merge(path) {
    const resource = context.live(path, { every: path === first ? 5 : 20 });
    if (!resource.data || seen.get(path) === resource.data) return;
    seen.set(path, resource.data);
    for (const job of gone(resource.data, path === first)) known.delete(job.id);
    for (const job of resource.data.items) known.set(job.id, job);
    sorted = [...known.values()].sort((a, b) => b.jid - a.jid);
  }

  /** The known jobs that a page covers and no longer has: they left the filter, or were deleted. */
  function gone({ items, cursor }, isFirst) {
    const has = new Set(items.map((job) => job.id));
    const newest = isFirst ? Infinity : (items[0]?.jid ?? -1);
    const oldest = cursor ? (items.at(-1)?.jid ?? Infinity) : -1;
    return sorted.filter((job) => job.jid >= oldest && job.jid <= newest && !has.has(job.id));
  }

  const watched = () => [...new Set([first, ...pages.slice(-2)])];
  const last = () => context.live(pages[pages.length - 1]);
  const complete = () => Boolean(last().data) && !last().data.cursor;

  /** Load the next page. */
  function more() {
    const end = last();
    if (!end.data?.cursor || end.loading) return;
    const wanted = JSON.parse(filters);
    pages.push(url(["jobs"], { ...wanted, limit: MORE, cursor: end.data.cursor }));
    context.keepOnly(watched());
    context.redraw();
  }

  return { select, more };
}
