"""Lanes: which queue of a worker group holds the tasks of which priority.

Every priority in use has a queue of its own, so that workers serve priorities in order by serving queues in
order. The first three queues of a group are the bands; workers always poll them. The others are used, and
polled, only while at least three priorities are in use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

BANDS = ("high", "normal", "low")
MAX_LANES = 16
"""Queues of a group, and therefore the number of priorities that can be kept apart at a time."""

UNUSED_MS = 120_000
"""How long a lane is marked as unused before its priority is removed: senders cache the table for seconds,
and the number of messages that SQS returns may be a minute old."""

_BAND_PRIORITIES = (10, 0, -1)
_DEFAULT_PRIORITY = 1


def band_of(priority: int) -> int:
    """The queue of a priority while it has no lane."""
    return 0 if priority >= 10 else 1 if priority >= 0 else 2


class Lane(NamedTuple):
    queue: int
    unused_since: int = 0
    """When its queue was found empty, in milliseconds; 0 while the lane is in use."""


class LaneTable(NamedTuple):
    """The lanes of a group by priority, and how many queues it has. It has at least one lane."""

    lanes: Mapping[int, Lane]
    queues: int

    @classmethod
    def of(cls, stored: Mapping[str, Sequence[int]], queues: int) -> LaneTable:
        lanes = {int(priority): Lane(*values) for priority, values in stored.items()}
        return cls(lanes or {_DEFAULT_PRIORITY: Lane(band_of(_DEFAULT_PRIORITY))}, queues)

    def stored(self) -> dict[str, list[int]]:
        return {str(priority): [lane.queue, lane.unused_since] for priority, lane in self.lanes.items()}

    @property
    def mixed(self) -> bool:
        return len(self.lanes) > 1

    @property
    def usual_queue(self) -> int:
        """The queue of the priority that has been in use for the longest time."""
        return next(iter(self.lanes.values())).queue

    def queue_of(self, priority: int) -> int | None:
        """The queue for the tasks of a priority; None if `with_priority` must add a lane first.

        If all queues are taken, the priority shares the queue of the next lower one, so that it never delays
        higher ones.
        """
        lane = self.lanes.get(priority)
        if lane:
            return None if lane.unused_since else lane.queue
        if self._free_queue(priority) is not None:
            return None
        return self.lanes[max((p for p in self.lanes if p < priority), default=min(self.lanes))].queue

    def with_priority(self, priority: int) -> LaneTable:
        """The table with a lane in use for a priority, if there is a queue for it."""
        lane = self.lanes.get(priority)
        queue = lane.queue if lane else self._free_queue(priority)
        return self if queue is None else self._with({**self.lanes, priority: Lane(queue)})

    def _free_queue(self, priority: int) -> int | None:
        taken = {lane.queue for lane in self.lanes.values()}
        preferred = [band_of(priority), *range(self.queues)]
        return next((queue for queue in preferred if queue not in taken), None)

    def order(self) -> list[tuple[int, int]]:
        """The queues that workers poll, highest priority first, each with its priority.

        A band without a lane counts as the lowest priority that it held in earlier releases. The queue that
        the next priority will get is polled, too, after all others, so that idle workers notice it.
        """
        taken = {lane.queue: priority for priority, lane in self.lanes.items()}
        bands = {queue: _BAND_PRIORITIES[queue] for queue in range(len(BANDS))}
        polled = bands | taken
        spare = next((queue for queue in range(self.queues) if queue not in taken), None)
        if spare is not None:
            polled.setdefault(spare, min(polled.values()) - 1)
        return sorted(((priority, queue) for queue, priority in polled.items()), reverse=True)

    def without_lane(self) -> set[int]:
        """The queues in which a message is of a priority that got its lane after this table was read."""
        return set(range(self.queues)) - {lane.queue for lane in self.lanes.values()}

    def in_use(self) -> list[tuple[int, int]]:
        """The priorities with a lane, highest first, each with its queue."""
        return sorted(((priority, lane.queue) for priority, lane in self.lanes.items()), reverse=True)

    @property
    def usual_priority(self) -> int:
        """The priority that has been in use for the longest time."""
        return next(iter(self.lanes))

    def after_check(self, empty: AbstractSet[int], now: int) -> LaneTable:
        """Mark the lanes whose priorities are in `empty`, and remove lanes that have been marked for long.

        The mark comes first, because a sender with an older table may still use the lane.
        """
        kept: dict[int, Lane] = {}
        for priority, lane in self.lanes.items():
            if priority not in empty:
                kept[priority] = Lane(lane.queue)
            elif not lane.unused_since:
                kept[priority] = Lane(lane.queue, now)
            elif now - lane.unused_since < UNUSED_MS:
                kept[priority] = lane
        last = _DEFAULT_PRIORITY if _DEFAULT_PRIORITY in self.lanes else next(iter(self.lanes))
        return self._with(kept or {last: self.lanes[last]})

    def _with(self, lanes: Mapping[int, Lane]) -> LaneTable:
        return LaneTable(lanes, self.queues)
