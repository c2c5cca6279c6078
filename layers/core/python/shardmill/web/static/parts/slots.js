// The load of workers. They lease tasks before they have a free slot.

import { number, plural } from "../core/format.js";

export const inUse = (held, slots) => `${number(Math.min(held, slots))} of ${plural(slots, "slot")} in use${held > slots ? `, ${plural(held - slots, "task")} leased ahead` : ""}`;
