"""The expected and the cancelled runs of a job's parents.

A run will not come if its dependency was removed, or if its schedule is off.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from shardmill.engine.mill import Mill
from shardmill.model.states import JobState
from shardmill.model.timestamps import from_ms
from shardmill.store.rows import JobRow, ScheduleRow


@dataclass(frozen=True, slots=True)
class Run:
    """An expected run of a parent: its time, and its Job if there is one."""

    parent: str
    strategy: str
    time: int | None
    job: JobRow | None
    schedule_id: str = ""

    @property
    def done(self) -> bool:
        return self.job is not None and self.job.state is JobState.SUCCESS


class CancelledRuns:
    """Decides whether the job stops waiting for an expected run that has not succeeded.

    Either the newest version of the Job's definition does not depend on the parent, or there is no Job and
    the schedule that would start it is off or deleted. Reads what it needs once.
    """

    def __init__(self, mill: Mill, job: JobRow) -> None:
        self._mill = mill
        self._name = job.job_name
        self._schedules: dict[str, list[ScheduleRow]] = {}

    @cached_property
    def _parents(self) -> list[str] | None:
        return self._mill.definitions.parents([self._name]).get(self._name)

    def __call__(self, run: Run) -> bool:
        if self._parents is not None and run.parent not in self._parents:
            return True
        if run.job or run.time is None:
            return False
        if run.parent not in self._schedules:
            self._schedules[run.parent] = list(self._mill.schedules.of_job(run.parent))
        rows = self._schedules[run.parent]
        if run.schedule_id:
            return not any(row.id == run.schedule_id and row.status == 1 for row in rows)
        return not any(row.status == 1 for row in rows) and any(fires_at(row, run.time) for row in rows)


def fires_at(row: ScheduleRow, time: int) -> bool:
    """Return whether a time is one of the schedule's."""
    from shardmill.model.time.schedule import Schedule  # imports cron, which only few Jobs need

    timetable = Schedule.model_validate(row.document).timetable
    return next(timetable.times(from_ms(time), from_ms(time + 1)), None) is not None
