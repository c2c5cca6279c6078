"""Jobs that have ended: their event, the notification of their dependents, and when they are deleted."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from shardmill.model.history import Change
from shardmill.model.states import JobState
from shardmill.store import indexes, keys
from shardmill.store.codec import to_json
from shardmill.store.due import run_keys
from shardmill.store.due.waiting import WaitingJobs
from shardmill.store.rows import JobRow
from shardmill.store.table import ConditionFailed, TransactionRefused
from shardmill.store.update import Update


class EndedJobs(WaitingJobs):
    """Writes that follow the end of a job."""

    def mark_deleted(
        self, job: JobRow, *, actor: str, now: int, due: int | None, purge: bool, ending: bool
    ) -> bool:
        """Mark an ended job as deleted and free its name; False if it changed since it was read.

        If children were not notified of its success yet, the tick does so.
        """
        row = Update(keys.job(job.id)).set(**indexes.job_state(job.id, JobState.DELETED.value))
        row.set(update_time=now, purge=purge, ending=ending or None)
        row.set(**indexes.due_job(job.id, due)).remove(*indexes.UNLIST_JOB, "event_pending")
        owed = owes_success(job) or None
        row.set(owed=owed, heirs_pending=owed, notifying=None)
        if job.state is not JobState.DELETED:
            row.append("history", Change(now, JobState.DELETED.value, job.run, actor).encode())
        row.if_equal(run=job.run, state=job.state.value)
        name = keys.identity(job.job_name, job.trigger)
        own = Update(name).if_equal(id=job.id)
        run = run_keys.run_at(job.job_name, job.moment, job.id)
        requests = [self._table.update_request(row), self._table.delete_request(run)]
        if job.state is not JobState.DELETED:
            requests.append(self._table.delete_request(name, own))
        try:
            self._table.transact(requests)
        except TransactionRefused:
            return False
        return True

    def purge(self, job: JobRow, *, most: int) -> bool:
        """Delete up to `most` rows of a job, its own row last; return whether its own row is deleted."""
        partition = keys.partition_of(keys.job(job.id))
        items = self._table.query(partition, only=keys.KEY, consistent=True, limit=most)
        others = (keys.key_of(item) for item in items if not keys.is_job(item))
        found = list(islice(others, most))
        self._table.batch_delete(found)
        if len(found) == most:
            return False
        self._table.delete(keys.job(job.id))
        return True

    def event_published(self, job: JobRow, *, due: int, notified: bool = False) -> None:
        """Note that a job's event was published; the tick checks whether its dependents were notified.

        `notified`: it has none. No-op if the job is in another state now, whose event is still to be
        published.
        """
        pending = {"run": job.run, "state": job.state.value, "event_pending": True}
        sent = _notified(job) if notified else Update(keys.job(job.id))
        sent.remove("event_pending").set_all(indexes.due_job(job.id, _expiry(job) if notified else due))
        try:
            self._table.update(sent.if_equal(**pending, heirs_pending=True))
        except ConditionFailed as changed:
            if changed.old is None:
                raise
            done = Update(keys.job(job.id)).remove("event_pending")
            done.set(**indexes.due_job(job.id, _expiry(JobRow.from_item(changed.old))))
            self._update_if_unchanged(done.if_equal(**pending, heirs_pending=None))

    def note_notified(self, job: JobRow, progress: Mapping[str, str]) -> None:
        """Note how far the dependents of an ended job were notified."""
        update = Update(keys.job(job.id)).set(notifying=to_json(progress) if progress else None)
        self._update_if_unchanged(update.if_equal(run=job.run, state=job.state.value, heirs_pending=True))

    def dependents_notified(self, job: JobRow) -> None:
        """Note that the dependents of an ended job were notified; only its event may still be pending."""
        notified = _notified(job).set(**indexes.due_job(job.id, _expiry(job)))
        try:
            self._table.update(notified.if_equal(run=job.run, state=job.state.value, event_pending=None))
        except ConditionFailed as changed:
            if changed.old is None:
                raise
            self._update_if_unchanged(
                _notified(job).if_equal(run=job.run, state=job.state.value, event_pending=True)
            )


def owes_success(job: JobRow) -> bool:
    """Whether a job has succeeded and some of its children have not been notified."""
    return job.owed or (job.heirs_pending and job.state is JobState.SUCCESS)


def _notified(job: JobRow) -> Update:
    return Update(keys.job(job.id)).remove("heirs_pending", "notifying", "owed")


def _expiry(job: JobRow) -> int | None:
    """When the tick deletes an ended job, if its definition or a request limits the retention."""
    if job.state is JobState.DELETED:
        return job.update_time if job.purge or job.ending else None
    if job.delete_at is not None:
        return job.delete_at
    if not job.retention_days or job.completed_time is None:
        return None
    return job.completed_time + job.retention_days * 86_400_000
