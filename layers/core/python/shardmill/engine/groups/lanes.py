"""Keep a lane for every priority in use in a group, and remove those that are no longer used.

A message may be in any queue that workers poll: the lane only decides when it is served. So a lane is added
with one conditional write before the first message, and removed when its queue has been empty for minutes.
If a message is sent to a lane that was removed meanwhile, the tick finds it as lost and sends it again.
"""

from __future__ import annotations

from collections.abc import Iterable

from botocore.exceptions import BotoCoreError, ClientError

from shardmill.aws.observability import logger
from shardmill.engine.groups.matching import group_rows
from shardmill.engine.mill import Mill
from shardmill.model.groups.lanes import band_of
from shardmill.store.rows import GroupRow

CHECK_MS = 60_000
_TRIES = 6


def queue_for(mill: Mill, group: GroupRow, priority: int) -> str:
    """The queue of a group for the tasks of a priority. Adds its lane, unless it exists."""
    if group.kind == "lambda":
        return group.queues[band_of(priority)]
    present: GroupRow | None = group
    for _ in range(_TRIES):
        if not present:
            break
        queue = present.lane_table.queue_of(priority)
        if queue is not None:
            return present.queues[queue]
        mill.recent_groups.discard(group.name)
        present = mill.groups.change_lanes(present, present.lane_table.with_priority(priority))
    return group.queues[band_of(priority)]  # all workers poll it


def share_queue(group: GroupRow, one: int, other: int) -> bool:
    """Whether the tasks of two priorities are in the same queue of a group."""
    if group.kind == "lambda":
        return group.queues[band_of(one)] == group.queues[band_of(other)]
    table = group.lane_table
    return one == other or (table.queue_of(one) is not None and table.queue_of(one) == table.queue_of(other))


def remove_unused(mill: Mill, names: Iterable[str], now: int) -> None:
    """Remove the lanes of groups that are no longer used, because an idle worker pays for polling each.

    Called with every heartbeat; of all workers, one checks a group each minute. A group with one priority is
    not checked.
    """
    for group in group_rows(mill, names, now).values():
        if group.kind != "lambda" and group.lane_table.mixed and now - group.lanes_checked >= CHECK_MS:
            try:
                _remove_unused(mill, group, now)
            except (ClientError, BotoCoreError) as error:
                logger.warning(
                    "failed to check the queues of a group; a heartbeat checks them again in a minute",
                    extra={"action": "check-lanes", "group": group.name, "error": str(error)},
                )


def _remove_unused(mill: Mill, group: GroupRow, now: int) -> None:
    present = mill.groups.begin_lane_check(group, now=now)
    mill.recent_groups.discard(group.name)
    if not present:
        return  # another worker checks them
    table = present.lane_table
    empty = {
        priority for priority, lane in table.lanes.items() if mill.queues.is_empty(present.queues[lane.queue])
    }
    changed = table.after_check(empty, now)
    if changed != table:
        mill.groups.change_lanes(present, changed)
