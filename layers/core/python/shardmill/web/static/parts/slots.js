// How busy workers are. They lease tasks ahead of the slots that run them.

import { number, plural } from "../core/format.js";

export const inUse = (held, slots) => `${number(Math.min(held, slots))} of ${plural(slots, "slot")} in use${held > slots ? `, ${plural(held - slots, "task")} leased ahead` : ""}`;
