// A form that saves a definition: a new definition that starts from an example, or the next version of an existing one.

import { h } from "../core/vdom.js";
import { post, send, url } from "../core/api.js";
import { plural } from "../core/format.js";
import { go, href } from "../core/router.js";
import { graph, graphState } from "../charts/graph.js";
import { documentOf, stepNode } from "../parts/definition_document.js";
import { diff } from "../parts/diff.js";
import { faults, problem, waiting } from "../parts/messages.js";
import { toast } from "../parts/toast.js";

export const title = ({ jobName }) => (jobName ? `Edit ${jobName}` : "New definition");

const WAIT_MS = 400;
const EXAMPLE = `{
  "jobName": "my-first-job",
  "description": "greets in four tasks, then counts the greetings",
  "params": {"greeting": "hello"},
  "steps": [
    {
      "stepName": "greet",
      "sharding": 4,
      "type": "shell",
      "content": "echo {{ params.greeting }} from task {{ shard.index }} of {{ shard.total }} | tee greeting-{{ shard.index }}.txt",
      "outputs": [{"name": "greeting-{{ shard.index }}.txt"}]
    },
    {
      "stepName": "count",
      "dependentSteps": ["greet"],
      "type": "shell",
      "inputs": [{"name": "greeting-*.txt", "origin": "greet"}],
      "content": "cat greeting-*.txt | wc -l"
    }
  ]
}`;

export default function define(context) {
  const { jobName } = context.params;
  const form = { text: jobName ? null : EXAMPLE, before: null, version: null, checked: null, verdict: null, error: null, busy: false, timer: 0 };
  const state = graphState();
  context.onLeave(() => clearTimeout(form.timer));
  if (jobName) read();
  else check();

  async function read() {
    form.error = null;
    try {
      const answer = await send("GET", url(["definitions", jobName]));
      Object.assign(form, { text: documentOf(answer.data), before: documentOf(answer.data), version: answer.etag });
      check();
    } catch (error) {
      form.error = error;
      context.redraw();
    }
  }

  /** Ask the API about the text, and keep the answer if the text is still the same. */
  async function check() {
    const text = form.text;
    const verdict = await judge(text).catch((error) => ({ error }));
    if (text !== form.text) return;
    Object.assign(form, { checked: text, verdict });
    context.redraw();
  }

  function edit(text) {
    Object.assign(form, { text, error: null });
    clearTimeout(form.timer);
    form.timer = setTimeout(check, WAIT_MS);
    context.redraw();
  }

  async function save() {
    Object.assign(form, { busy: true, error: null });
    context.redraw();
    try {
      const document = JSON.parse(form.text);
      const name = jobName || document.jobName;
      const { data } = await send("PUT", url(["definitions", name]), document, jobName ? undefined : "*", form.version);
      toast(`${name} is saved as version ${data.version}.`);
      return go(href(["definitions", name]));
    } catch (error) {
      Object.assign(form, { error, busy: false });
    }
    return context.redraw();
  }

  return function render() {
    if (form.text === null) return form.error ? problem(form.error) : waiting("Loading the definition");
    const isReady = form.checked === form.text && form.verdict?.valid && form.text !== form.before && !form.busy;
    return [
      h("p", { class: "crumbs" }, h("a", { href: "#/definitions" }, "Definitions"), jobName && [" / ", h("a", { href: href(["definitions", jobName]) }, jobName)]),
      h("div", { class: "title" }, h("h1", {}, title(context.params)), h("div", { class: "actions" }, h("a", { class: "button", href: jobName ? href(["definitions", jobName]) : "#/definitions" }, "Cancel"), h("button", { class: "primary", disabled: !isReady, onclick: save }, form.busy ? "Saving" : "Save"))),
      h("p", { class: "hint" }, jobName ? "Saving makes a new version. Jobs that run keep the version they began with." : "Change the example, save it, then submit a job of it. The steps run in the order of dependentSteps; sharding is the number of tasks of a step."),
      form.error && h("div", { class: "card why error", role: "alert" }, h("p", {}, explained(form.error)), faults(form.error)),
      h(
        "div",
        { class: "editor" },
        h("textarea", { "aria-label": "Definition in JSON", spellcheck: "false", value: form.text, oninput: (event) => edit(event.target.value) }),
        h("section", { class: "card", "aria-label": "Check", "aria-live": "polite" }, verdict(form, state)),
      ),
    ];
  };
}

/** The result of the API's validation of a text: {valid, faults, definition}. */
async function judge(text) {
  let document;
  try {
    document = JSON.parse(text);
  } catch (error) {
    return { valid: false, faults: [{ pointer: "JSON", message: error.message }] };
  }
  return post(`${url(["definitions"])}:validate`, document);
}

const explained = (error) => (error.status === 412 ? "It was saved by somebody else meanwhile, or there is a definition of this name. Open it again to see the present version." : error.message);

function verdict({ text, before, checked, verdict: found }, state) {
  const old = checked !== text;
  if (!found) return [h("h2", {}, "Check"), waiting("Checking")];
  if (found.error) return [h("h2", {}, "Check"), problem(found.error)];
  if (!found.valid) return [h("h2", { class: old ? "muted" : "error" }, plural(found.faults.length, "fault")), h("div", { class: "pad" }, faults(found))];
  return [
    h("h2", { class: old ? "muted" : "" }, `Valid: ${plural(found.definition.steps.length, "step")}`),
    graph(state, found.definition.steps.map(stepNode), { label: "Graph of the steps", source: found }),
    before !== null && [h("h2", { class: "inner" }, "Difference to the saved version"), diff(before, text)],
  ];
}
