"""What follows the end of a job: its event, its dependents, its deletion."""

from __future__ import annotations

from shardmill.model.history import Change
from shardmill.model.states import JobState
from shardmill.store import indexes, keys
from shardmill.store.due.waiting import WaitingJobs
from shardmill.store.rows import JobRow
from shardmill.store.table import ConditionFailed, TransactionRefused
from shardmill.store.update import Update


class EndedJobs(WaitingJobs):
    """Writes to jobs that have ended."""

    def mark_deleted(
        self, job: JobRow, *, actor: str, now: int, due: int | None, purge: bool, ending: bool
    ) -> bool:
        """Mark an ended job as deleted and free its name; False if it changed since it was read."""
        row = Update(keys.job(job.id)).set(**indexes.job_state(job.id, JobState.DELETED.value))
        row.set(update_time=now, purge=purge, ending=ending or None)
        row.set(**indexes.due_job(job.id, due)).remove(*indexes.UNLIST_JOB, "event_pending", "heirs_pending")
        row.append("history", Change(now, JobState.DELETED.value, job.run, actor).encode())
        row.if_equal(run=job.run, state=job.state.value)
        name = keys.identity(job.job_name, job.trigger)
        own = Update(name).if_equal(id=job.id)
        run = keys.run_at(job.job_name, job.moment, job.id)
        requests = [self._table.update_request(row), self._table.delete_request(run)]
        if job.state is not JobState.DELETED:
            requests.append(self._table.delete_request(name, own))
        try:
            self._table.transact(requests)
        except TransactionRefused:
            return False
        return True

    def purge(self, job: JobRow) -> None:
        """Delete all rows of a job, its own last."""
        partition = keys.partition_of(keys.job(job.id))
        items = self._table.query(partition, only=keys.KEY, consistent=True)
        self._table.batch_delete([keys.key_of(item) for item in items if not keys.is_job(item)])
        self._table.delete(keys.job(job.id))

    def event_published(self, job_id: str, run: int, *, due: int) -> None:
        """Note that a job's event was published; the tick checks whether its dependents were notified."""
        sent = Update(keys.job(job_id)).remove("event_pending").set_all(indexes.due_job(job_id, due))
        try:
            self._table.update(sent.if_equal(run=run, event_pending=True, heirs_pending=True))
        except ConditionFailed as changed:
            if changed.old is None:
                raise
            done = Update(keys.job(job_id)).remove("event_pending")
            done.set(**indexes.due_job(job_id, _expiry(JobRow.from_item(changed.old))))
            self._update_if_unchanged(done.if_equal(run=run, event_pending=True, heirs_pending=None))

    def dependents_notified(self, job: JobRow) -> None:
        """Note that the dependents of an ended job were notified; only its event may still be pending."""
        notified = (
            Update(keys.job(job.id)).remove("heirs_pending").set(**indexes.due_job(job.id, _expiry(job)))
        )
        try:
            self._table.update(notified.if_equal(run=job.run, state=job.state.value, event_pending=None))
        except ConditionFailed as changed:
            if changed.old is None:
                raise
            before_event = Update(keys.job(job.id)).remove("heirs_pending")
            self._update_if_unchanged(
                before_event.if_equal(run=job.run, state=job.state.value, event_pending=True)
            )


def _expiry(job: JobRow) -> int | None:
    """When the tick deletes an ended job, if its definition or a request limits the retention."""
    if job.delete_at is not None:
        return job.delete_at
    if not job.retention_days or job.completed_time is None:
        return None
    return job.completed_time + job.retention_days * 86_400_000
