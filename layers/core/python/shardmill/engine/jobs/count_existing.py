"""Count the definitions, schedules and live Jobs that existed before the deployment had limits.

Each is counted in a transaction that marks it, so it is counted once, even if this is repeated. The
tick does it when the limits changed, and once a day: while there were no limits, nothing was counted.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardmill.engine.jobs.effective import (
    bound_groups_for,
    effective_steps,
    ignored_steps,
    pinned_definition,
    tasks_known_before,
)
from shardmill.engine.mill import Mill
from shardmill.store.rows import JobRow

MAX_PER_TICK = 500
_PAGE = 200


def counted_tasks(mill: Mill, job: JobRow) -> int:
    """Return how many tasks of a Job are known before its steps are opened."""
    define = pinned_definition(mill, job)
    ignored = ignored_steps(job)
    specs = effective_steps(define, job, bound_groups_for(mill, define))
    return tasks_known_before(spec for spec in specs if spec.step_name not in ignored)


def count_existing(mill: Mill, now: int) -> int:
    """Count up to MAX_PER_TICK uncounted rows; return how many were counted."""
    counted = 0
    for done in _uncounted(mill):
        counted += done
        if counted >= MAX_PER_TICK:
            return counted  # the next tick continues
    mill.usage.everything_counted(now)
    return counted


def _uncounted(mill: Mill) -> Iterator[bool]:
    """Count one thing after the other; yield whether it was counted."""
    for definition in mill.definitions.page(after=None, limit=_PAGE):
        if not definition.counted_in:
            version, application = definition.version, definition.app_name
            yield mill.usage.count_definition(definition.job_name, version, application)
    heads: dict[str, str] = {}
    for schedule in mill.schedules.page(after=None, limit=_PAGE):
        if not schedule.counted_in and not schedule.deleted:
            name = schedule.job_name
            if name not in heads:
                found = mill.definitions.heads([name])
                heads[name] = found[name].app_name if name in found else ""
            yield mill.usage.count_schedule(schedule, heads[name])
    for job in mill.jobs.live():
        if job.counted_tasks is None:
            yield mill.usage.count_job(job, counted_tasks(mill, job))
