"""Bound the work of one call and continue it in further calls.

Work that grows with a Job, such as ending a million tasks, is done in slices. Each slice spends a budget and
leaves its progress in rows, so that the next one continues there. An event starts the next slice immediately;
if the event is lost, the tick does.
"""

from __future__ import annotations

from collections.abc import Sequence

from botocore.exceptions import BotoCoreError, ClientError

from shardmill.aws.observability import logger
from shardmill.engine.mill import RECHECK_MS, Mill
from shardmill.model.errors import Transient
from shardmill.store.due.watches import Due

JOBS_DUE = "Jobs Due"
REQUEST_CALLS = 300
"""The AWS calls that a request spends on long work before it answers: about two seconds."""
SLICE_CALLS = 4_000
"""The AWS calls of a slice in a function that only continues one Job: about half a minute."""
_LEAST_CALLS = 100


class Budget:
    """About how many AWS calls remain; a started unit of work may exceed it."""

    def __init__(self, calls: int | None = None) -> None:
        """By default, the budget of a request."""
        self._left = REQUEST_CALLS if calls is None else calls

    @classmethod
    def of_slice(cls, jobs: int = 1) -> Budget:
        """Return the budget for each of the Jobs that one call continues."""
        return cls(max(SLICE_CALLS // jobs, min(_LEAST_CALLS, SLICE_CALLS)))

    @property
    def spent(self) -> bool:
        return self._left <= 0

    def spend(self, calls: int = 1) -> None:
        self._left -= calls


def continue_soon(mill: Mill, job_id: str, now: int) -> None:
    """Have the unfinished work of a Job continued by another call."""
    due = now + RECHECK_MS
    mill.watches.look_soon(job_id, due=due)
    publish_due(mill, [[Due(due, job_id, False)]], now)


def publish_due(mill: Mill, chunks: Sequence[Sequence[Due]], now: int) -> bool:
    """Pass on Jobs that are due to further calls, one for each chunk; after a failure, they stay due."""
    details = [{"stack": mill.settings.stack, "now": now, "due": chunk} for chunk in chunks]
    try:
        mill.bus.publish_all(JOBS_DUE, details)
    except (ClientError, BotoCoreError, Transient):
        extra = {"action": "repair", "count": sum(map(len, chunks))}
        logger.exception("failed to pass on jobs that are due; the next tick will retry", extra=extra)
        return False
    return True
