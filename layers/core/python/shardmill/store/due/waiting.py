"""Jobs that wait for other Jobs: their dependencies, and the end of their wait."""

from __future__ import annotations

from collections.abc import Mapping

from shardmill.model.history import Change
from shardmill.model.states import JobState
from shardmill.store import indexes, keys
from shardmill.store.codec import to_json
from shardmill.store.history import update_with_history
from shardmill.store.rows import JobRow
from shardmill.store.steps import Steps
from shardmill.store.table import ConditionFailed
from shardmill.store.update import Update


class WaitingJobs(Steps):
    """Writes that happen only while a job waits for other jobs."""

    def dependencies_met(self, job: JobRow, *, now: int, due: int) -> bool:
        """Note that the dependencies of a job are met; returns whether the job still has to be planned."""
        try:
            self._table.update(_end_wait(job, now, due))
        except ConditionFailed as changed:
            row = JobRow.from_item(changed.old) if changed.old else None
            return row is not None and row.run == job.run and row.state is JobState.WAITING
        return True

    def waive_dependencies(
        self, job: JobRow, *, now: int, due: int, actor: str, reason: str
    ) -> JobRow | None:
        """End the wait of a job on request; None if it no longer waits."""
        change = Change(now, JobState.WAITING.value, job.run, actor, reason)
        try:
            return JobRow.from_item(update_with_history(self._table, _end_wait(job, now, due), change))
        except ConditionFailed:
            return None

    def dependents_taken_along(self, job: JobRow) -> None:
        """Note that the dependents of a rerun have begun their next runs."""
        done = Update(keys.job(job.id)).remove("with_dependents")
        self._update_if_unchanged(done.if_equal(run=job.run, with_dependents=True))

    def note_waiting(
        self, job: JobRow, notes: str, missing: Mapping[str, int], *, now: int, due: int
    ) -> None:
        """Set the notes of a waiting job, and the first run that is missing of each wide window."""
        update = Update(keys.job(job.id)).set(
            notes=notes,
            first_missing=to_json(missing) if missing else None,
            update_time=now,
            **indexes.due_job(job.id, due),
        )
        self._update_if_unchanged(_while_waiting(job, update))


def _end_wait(job: JobRow, now: int, due: int) -> Update:
    update = Update(keys.job(job.id)).remove("unmet", "notes", "first_missing")
    return _while_waiting(job, update.set(update_time=now, **indexes.due_job(job.id, due)))


def _while_waiting(job: JobRow, update: Update) -> Update:
    return update.if_equal(run=job.run, state=JobState.WAITING.value, unmet=True)
