// The field that chooses one of a job's steps, kept in the address.

import { h } from "../core/vdom.js";
import { number } from "../core/format.js";
import { setQuery } from "../core/router.js";

export const stepChoice = (job, chosen) =>
  h("select", { "aria-label": "Step", onchange: (event) => setQuery({ step: event.target.value, from: "" }) }, job.steps.map((step) => h("option", { value: step.stepName, selected: step === chosen }, `${step.stepName} (${step.state}, ${number(step.totalWork)})`)));
