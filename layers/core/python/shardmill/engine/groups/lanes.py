"""Keep a lane for every priority in use in a group, and remove unused lanes.

A message may be in any queue that workers poll: the lane only decides when it is served. So a lane is added
with one conditional write before the first message, and removed when its queue has been empty for minutes.
If a message is sent to a lane that was removed meanwhile, the tick finds it as lost and sends it again.

The messages of all groups of kind `lambda` are in the one queue that Lambda polls. While several priorities
are in use, each message also has a copy in the order queue of its priority; see `engine/tasks/by_priority`.
These lanes are in the row of the built-in group `lambda`.
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
LAMBDA_GROUP = "lambda"
_TRIES = 6


def queue_for(mill: Mill, group: GroupRow, priority: int) -> str:
    """The queue of a group for the tasks of a priority. Adds its lane, unless it exists."""
    if group.kind == "lambda":
        return group.queues[0]  # the others are the same
    present = with_lane(mill, group, priority)
    queue = present.lane_table.queue_of(priority) if present else None
    if not present or queue is None:
        return group.queues[band_of(priority)]  # all workers poll it
    return present.queues[queue]


def order_queue_for(mill: Mill, group: GroupRow, priority: int, now: int) -> str:
    """The queue for copies of the messages of a priority. Adds its lane, unless it exists.

    Empty if messages need no copies: if Lambda does not serve the group, or serves only one priority.
    """
    row = group_rows(mill, [LAMBDA_GROUP], now).get(LAMBDA_GROUP) if group.kind == "lambda" else None
    present = with_lane(mill, row, priority, now=now) if row else None
    if not present or not needs_order(present):
        return ""
    queue = present.lane_table.queue_of(priority)
    return "" if queue is None else present.order_queues[queue]


def needs_order(group: GroupRow) -> bool:
    """Whether several priorities are in use in the Lambda groups. `group`: the row of `lambda`."""
    return bool(group.order_queues) and group.lane_table.mixed


def with_lane(mill: Mill, group: GroupRow, priority: int, *, now: int = 0) -> GroupRow | None:
    """The group with a lane for a priority, which is added unless it exists.

    None if the group does not exist, or if its lanes are changed too often meanwhile.
    """
    present: GroupRow | None = group
    for _ in range(_TRIES):
        if not present or not present.lane_queues or present.lane_table.queue_of(priority) is not None:
            return present
        mill.recent_groups.discard(group.name)
        present = mill.groups.change_lanes(present, present.lane_table.with_priority(priority), now=now)
    return None


def forget_outdated(mill: Mill, groups: Iterable[GroupRow], queues: Iterable[str]) -> None:
    """Read groups again if a message came from a queue without a lane: one was added since."""
    sources = set(queues)
    for group in groups:
        if any(group.queues[number] in sources for number in group.lane_table.without_lane()):
            mill.recent_groups.discard(group.name)


def share_queue(group: GroupRow, one: int, other: int) -> bool:
    """Whether the tasks of two priorities are in the same queue of a group, or have the same order."""
    if group.kind == "lambda":
        return one == other
    table = group.lane_table
    return one == other or (table.queue_of(one) is not None and table.queue_of(one) == table.queue_of(other))


def remove_unused(mill: Mill, names: Iterable[str], now: int) -> None:
    """Remove the lanes of groups that are no longer used: an idle worker pays for polling each, and every
    message of a Lambda group for its copy.

    Called with every heartbeat, and by every Lambda worker; of all workers, one checks a group each minute. A
    group with one priority is not checked.
    """
    for group in group_rows(mill, names, now).values():
        if group.lane_queues and group.lane_table.mixed and now - group.lanes_checked >= CHECK_MS:
            try:
                _remove_unused(mill, group, now)
            except (ClientError, BotoCoreError) as error:
                logger.warning(
                    "failed to check the queues of a group; a worker checks them again in a minute",
                    extra={"action": "check-lanes", "group": group.name, "error": str(error)},
                )


def _remove_unused(mill: Mill, group: GroupRow, now: int) -> None:
    present = mill.groups.begin_lane_check(group, now=now)
    mill.recent_groups.discard(group.name)
    if not present:
        return  # another worker checks them
    table = present.lane_table
    empty = {
        priority
        for priority, lane in table.lanes.items()
        if mill.queues.is_empty(present.lane_queues[lane.queue])
    }
    changed = table.after_check(empty, now)
    if changed != table:
        mill.groups.change_lanes(present, changed)
