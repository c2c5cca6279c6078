"""Definitions with `uniqueAliveInstance`: at most one Job that has not ended.

The row of the only run is written in the transaction that creates a Job or begins its next run, on condition
that it still names the run that was found to have ended. No write is needed when a Job ends. Of two requests
at the same time, or of a request and a rerun, one transaction fails and its caller looks again.
"""

from __future__ import annotations

from itertools import islice

from shardmill.engine.errors import AliveInstance
from shardmill.engine.mill import Mill
from shardmill.store import keys
from shardmill.store.jobs import NO_RUN_BEFORE
from shardmill.store.rows import JobRow

_NEWEST = 100
"""How many Jobs of a definition are checked when its first Job with `uniqueAliveInstance` is created."""


def claim(mill: Mill, job: JobRow) -> JobRow:
    """Return a Job with the claim to be the only live one of its definition.

    Raises AliveInstance if another Job of the definition has not ended.
    """
    before = mill.slots.only_run(job.job_name)
    if before is None:
        # Jobs of earlier versions, without `uniqueAliveInstance`, have not written the row.
        newest = mill.jobs.page(job_name=job.job_name, state=None, before=None, limit=_NEWEST)
        for other in islice(newest, _NEWEST):
            _check_ended(job, other)
        return job.evolve(unique=NO_RUN_BEFORE)
    _check_ended(job, mill.jobs.get(before.job_id))
    return job.evolve(unique=keys.run_reference(*before))


def _check_ended(job: JobRow, other: JobRow | None) -> None:
    if other and other.id != job.id and not other.state.ended:
        raise AliveInstance(
            f"the Job {other.job_name}/{other.trigger} is {other.state}, and its definition has "
            "`uniqueAliveInstance`; wait until it ends, or kill it"
        )
