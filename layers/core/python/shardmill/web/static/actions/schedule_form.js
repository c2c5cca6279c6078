// The form that adds a schedule to a definition.

import { h } from "../core/vdom.js";
import { send, url } from "../core/api.js";
import { go, href } from "../core/router.js";
import { confirm } from "./confirm.js";

const TIMES = [
  ["30 2 * * *", "every day at 02:30"],
  ["0 6 * * 1-5", "from Monday to Friday at 06:00"],
  ["0 * * * *", "every hour"],
  ["*/15 * * * *", "every 15 minutes"],
  ["", "other times, by cron"],
];

/** Ask when jobs of a definition are to start, save that as a schedule, and show it. */
export function addSchedule(jobName) {
  const form = { id: "main", cron: TIMES[0][0], other: false, zone: Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC" };
  const input = (name, label, hint) => h("div", { key: name, class: "field" }, h("label", { for: `schedule-${name}` }, label), h("input", { id: `schedule-${name}`, value: form[name], autocomplete: "off", oninput: (event) => (form[name] = event.target.value) }), hint && h("p", { class: "hint" }, hint));
  const choose = (redraw) => (event) => {
    form.other = event.target.value === "";
    if (!form.other) form.cron = event.target.value;
    redraw();
  };
  return confirm("Add a schedule", {
    lines: [`Jobs of ${jobName} start at these times, with the parameters of the definition. The coming times are shown after it is saved.`],
    fields: (redraw) => [
      h("div", { key: "times", class: "field" }, h("label", { for: "schedule-times" }, "Times"), h("select", { id: "schedule-times", onchange: choose(redraw) }, TIMES.map(([value, label]) => h("option", { value, selected: form.other ? value === "" : value === form.cron }, label)))),
      form.other && input("cron", "Cron expression", "Minute, hour, day of the month, month, day of the week; or @daily and the like."),
      input("zone", "Time zone", "Such as Europe/Berlin. Clock changes are taken into account."),
      input("id", "Name of the schedule"),
    ],
    button: "Save", done: "The schedule is saved.", reason: false,
    run: async () => {
      const id = form.id.trim();
      await send("PUT", url(["schedules", jobName, id]), { cron: form.cron.trim(), timezone: form.zone.trim() }, "*");
      go(href(["schedules", jobName, id]));
    },
  });
}
