// The API's sentences about a job: with links to the tasks that they name, times of this zone, and log lines in their colours.

import { h } from "../core/vdom.js";
import { plain } from "../core/ansi.js";
import { clock } from "../core/format.js";
import { href } from "../core/router.js";
import { coloured } from "./log.js";

const PARTS = /task (\d+) of step ([\w-]+)|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g;
const LOG = /^(Its last lines on (\w+)):\n([^]*)$/;

/** A sentence without the facts that the view shows already: the name and the state of the job. A name at its beginning stays as it is. */
function short(sentence, job) {
  const known = `${job.jobName}/${job.trigger} is ${job.state}. `;
  const text = sentence.startsWith(known) ? sentence.slice(known.length) : sentence;
  return /^\S*\//.test(text) ? text : text.charAt(0).toUpperCase() + text.slice(1);
}

/** Sentences without the end of the first, if the second says the same with more details. */
export const withoutRepeats = ([first, ...rest]) => [rest[0]?.startsWith("The first task that failed ") ? first.replace(/; the first was task [^]*$/, ".") : first, ...rest];

/** A paragraph with links and local times; the last lines of a log are a paragraph and a block. */
export function paragraph(sentence, job) {
  const log = LOG.exec(sentence);
  if (log) return [h("p", {}, `${log[1]}:`), h("pre", { class: "tail" }, coloured(log[3]))];
  const text = plain(short(sentence, job));
  const found = [];
  let at = 0;
  for (const match of text.matchAll(PARTS)) {
    found.push(text.slice(at, match.index), match[1] ? h("a", { href: href(["jobs", job.jobName, job.trigger, "steps", match[2], match[1]]) }, match[0]) : clock(match[0]));
    at = match.index + match[0].length;
  }
  return h("p", {}, found, text.slice(at));
}

/** The first sentence and the last line of the log, for a list of jobs. */
export function brief(sentences, job) {
  const log = sentences.map((sentence) => LOG.exec(sentence)).find(Boolean);
  const last = log && plain(log[3]).trim().split("\n").at(-1);
  const own = sentences.filter((sentence) => !LOG.test(sentence)).slice(0, job.state === "FAILED" ? 1 : 2);
  return [own.map((sentence) => plain(short(sentence, job))).join(" "), last && h("code", { class: "last-line", title: log[2] }, last)];
}
