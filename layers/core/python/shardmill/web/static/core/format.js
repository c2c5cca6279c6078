// Format times, durations and numbers.

const two = (number) => String(number).padStart(2, "0");

/** A duration in milliseconds, short: 850 ms, 12 s, 3 m 05 s, 2 h 10 m, 3 d 4 h. */
export function duration(ms) {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return "–";
  if (ms < 0) return "0 s";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} m ${two(Math.floor(seconds % 60))} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${two(minutes % 60)} m`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export const ms = (time) => (time ? Date.parse(time) : null);

/** The time between two RFC 3339 times, until now if the second is absent. */
export function between(from, to) {
  const start = ms(from);
  return start === null ? null : (ms(to) ?? Date.now()) - start;
}

/** How long ago, or in how long: "12 s ago", "in 3 m". */
export function relative(time, now = Date.now()) {
  const at = typeof time === "number" ? time : ms(time);
  if (!at) return "–";
  const distance = at - now;
  const size = Math.abs(distance);
  if (size < 1000) return "now";
  const text = size < 60_000 ? `${Math.floor(size / 1000)} s` : size < 3_600_000 ? `${Math.floor(size / 60_000)} m` : size < 172_800_000 ? `${Math.floor(size / 3_600_000)} h` : `${Math.floor(size / 86_400_000)} d`;
  return distance < 0 ? `${text} ago` : `in ${text}`;
}

/** A local time: the hour of today, else with the date. */
export function clock(time, { seconds = true, date = "auto" } = {}) {
  const at = typeof time === "number" ? new Date(time) : time ? new Date(time) : null;
  if (!at || Number.isNaN(at.getTime())) return "–";
  const hour = `${two(at.getHours())}:${two(at.getMinutes())}${seconds ? `:${two(at.getSeconds())}` : ""}`;
  const today = new Date().toDateString() === at.toDateString();
  return date === "never" || (date === "auto" && today) ? hour : `${day(at)} ${hour}`;
}

export const day = (at) => `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;

export const number = (value) => (value ?? 0).toLocaleString("en");

export const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;

export function bytes(size) {
  if (size === null || size === undefined) return "–";
  const units = ["B", "KB", "MB", "GB", "TB"];
  let value = size;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit && value < 10 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

export const percent = (part, whole) => (whole ? Math.floor((100 * part) / whole) : 0);
