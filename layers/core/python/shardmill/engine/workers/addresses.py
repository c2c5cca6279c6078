"""The addresses at which a worker over HTTP waits for the tasks of its groups, without a Lambda function."""

from __future__ import annotations

import hashlib

from shardmill.aws.presigned_queues import presign_receive
from shardmill.engine.groups.matching import group_rows
from shardmill.engine.mill import Mill
from shardmill.model.groups.addresses import (
    SIZES,
    VALID_SECONDS,
    WAIT_SECONDS,
    LaneAddress,
    LaneAddresses,
)
from shardmill.store.rows import GroupRow, WorkerRow

RENEW_MS = 300_000
"""The age at which addresses are replaced: heartbeats may then fail for ten minutes before they expire."""

MAX_LANES = 64
"""A worker with more lanes waits over HTTP: each has a pending request, and the addresses have 5 KB."""

_Lane = tuple[int, str, int]


def new_addresses(mill: Mill, worker: WorkerRow, tag: str, now: int) -> LaneAddresses | None:
    """The addresses of a worker's lanes; None if the addresses with `tag` are still valid.

    A lane is a queue of a group that is not suspended, in the order in which it is to be served.
    """
    lanes = _lanes(mill, worker, now)
    digest = _digest(lanes)
    if len(lanes) > MAX_LANES or _is_good(tag, digest, now):
        return None
    items = [
        LaneAddress(
            queue=queue_name(url),
            priority=priority,
            urls={
                size: presign_receive(
                    url, most=size, wait=WAIT_SECONDS, hide=hide, valid_seconds=VALID_SECONDS
                )
                for size in SIZES
            },
        )
        for priority, url, hide in lanes
    ]
    return LaneAddresses(tag=f"{digest}.{now}", valid_seconds=VALID_SECONDS, items=items)


def lanes_changed(mill: Mill, worker: WorkerRow, tag: str, now: int) -> bool:
    """Whether the addresses with this tag are for other lanes than the worker should serve."""
    return tag.partition(".")[0] != _digest(_lanes(mill, worker, now))


def queue_name(url: str) -> str:
    return url.rsplit("/", 1)[-1]


def _lanes(mill: Mill, worker: WorkerRow, now: int) -> list[_Lane]:
    groups = group_rows(mill, worker.groups, now)
    lanes = [lane for name in worker.groups if name in groups for lane in _lanes_of(groups[name])]
    return sorted(lanes, key=lambda lane: -lane[0])


def _lanes_of(group: GroupRow) -> list[_Lane]:
    if group.suspended or group.kind == "lambda":
        return []
    return [
        (priority, group.queues[queue], group.lease_seconds) for priority, queue in group.lane_table.order()
    ]


def _digest(lanes: list[_Lane]) -> str:
    return hashlib.sha256(repr(lanes).encode()).hexdigest()[:16]


def _is_good(tag: str, digest: str, now: int) -> bool:
    known, _, signed = tag.partition(".")
    return known == digest and signed.isdecimal() and 0 <= now - int(signed) < RENEW_MS
