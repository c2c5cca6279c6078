"""Jobs: creation, lookup, state changes and deletion."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

from shardmill.model.access.limits import Limits
from shardmill.model.history import ENGINE, Change
from shardmill.model.states import JOB_MOVES, JobState
from shardmill.store import indexes, keys
from shardmill.store.access.usage import LimitExceeded, Usage
from shardmill.store.codec import to_json
from shardmill.store.due.deadlines import deadline_rows
from shardmill.store.due.ended import EndedJobs, owes_success
from shardmill.store.history import update_with_history
from shardmill.store.rows import JobRow
from shardmill.store.runs import rows_of
from shardmill.store.slots import Holder, only_run_claim
from shardmill.store.table import ConditionFailed, Contended, Table, TransactionRefused
from shardmill.store.update import Item, Update

NO_RUN_BEFORE = "-"


class ExtraWriteFailed(Exception):
    """A condition of the additional writes failed, so neither they nor the job were written."""


class Jobs(EndedJobs):
    """Jobs, and, by inheritance, their steps."""

    def __init__(self, table: Table, usage: Usage | None = None) -> None:
        super().__init__(table)
        self._usage = usage or Usage(table, Limits())

    def identity(self, job_name: str, trigger: str) -> tuple[str, str] | None:
        """The id of the job with a name and trigger, and the hash of its request."""
        item = self._table.get(keys.identity(job_name, trigger))
        return (item["id"], item["request_hash"]) if item else None

    def creation(self, job: JobRow, *, due: int) -> list[Item]:
        """The writes that create a job; the transaction fails if its identity is taken."""
        identity = {"id": job.id, "request_hash": job.request_hash}
        row = {
            **keys.job(job.id),
            **job.to_item(),
            **indexes.listed_job(job.id, job.jid, job.job_name),
            **indexes.job_state(job.id, job.state.value),
            **indexes.due_job(job.id, due),
        }
        return [
            self._table.put_request({**keys.identity(job.job_name, job.trigger), **identity}, new=True),
            self._table.put_request(row, new=True),
            *self._only_run(job),
            *(self._table.put_request(each) for each in rows_of(job)),
            *(self._table.put_request(each) for each in deadline_rows(job.id, job.deadline)),
        ]

    def _only_run(self, job: JobRow) -> list[Item]:
        """The write that makes a run the only one of its definition, if the definition allows no other."""
        if not job.unique:
            return []
        before = None if job.unique == NO_RUN_BEFORE else Holder(*keys.parse_run_reference(job.unique))
        claim = only_run_claim(job.job_name, Holder(job.id, job.run), before=before)
        return [self._table.update_request(claim)]

    def create(self, job: JobRow, *, due: int, also: Sequence[Item] = ()) -> bool:
        """Create a job; False if its identity is taken, or is being taken by a concurrent transaction.

        `also`: more writes of the same transaction; raises ExtraWriteFailed if one of their conditions fails.
        Raises LimitExceeded if the job would exceed a limit of its application.
        """
        claim = self._usage.job_claim(job)
        written = [*self.creation(job, due=due), *claim]
        try:
            self._table.transact([*written, *also], tries=8 if claim else 2)
        except TransactionRefused as refused:
            if refused.failed[-1] >= len(written):
                raise ExtraWriteFailed from refused
            if claim and refused.failed == [len(written) - 1]:
                raise LimitExceeded(job.app_name, Limits(jobs=1, tasks=job.counted_tasks or 0)) from refused
            return False
        except Contended:
            return False
        return True

    def get(self, job_id: str) -> JobRow | None:
        item = self._table.get(keys.job(job_id))
        return JobRow.from_item(item) if item else None

    def by_id(self, ids: Iterable[str]) -> dict[str, JobRow]:
        items = self._table.batch_get([keys.job(job_id) for job_id in ids])
        return {row.id: row for row in map(JobRow.from_item, items)}

    def find(self, job_name: str, trigger: str) -> JobRow | None:
        found = self.identity(job_name, trigger)
        return self.get(found[0]) if found else None

    def move(
        self,
        job_id: str,
        run: int,
        state: JobState,
        *,
        sources: Iterable[JobState],
        now: int,
        due: int | Literal["unchanged"] | None,
        actor: str = ENGINE,
        reason: str = "",
        only_unmet: bool = False,
        **changes: Any,
    ) -> JobRow | None:
        """Move a job to a state if it is in one of `sources`, and return it; else None.

        `only_unmet`: only while it waits for other jobs.
        """
        illegal = [source for source in sources if state not in JOB_MOVES[source]]
        assert not illegal, f"{illegal} -> {state} is not a legal transition"
        update = Update(keys.job(job_id)).set(
            **indexes.job_state(job_id, state.value),
            update_time=now,
            **changes,
            **({} if due == "unchanged" else indexes.due_job(job_id, due)),
        )
        update.if_equal(run=run).if_in("state", [source.value for source in sources])
        if only_unmet:
            update.if_equal(unmet=True)
        change = Change(now, state.value, run, actor, reason or changes.get("notes") or "")
        try:
            return JobRow.from_item(update_with_history(self._table, update, change))
        except ConditionFailed:
            return None

    def mark_running(self, job_id: str, run: int, *, now: int) -> None:
        """Record that the first task of a Job was leased; no other write has to follow."""
        queued = (JobState.QUEUED,)
        self.move(job_id, run, JobState.RUNNING, sources=queued, now=now, due="unchanged", started_time=now)

    def next_run(
        self,
        job: JobRow,
        *,
        redo: dict[str, Any],
        sources: Iterable[JobState],
        now: int,
        due: int,
        actor: str,
        reason: str,
        deadline: int | None = None,
        expires: int | None = None,
        params: dict[str, Any] | None = None,
        with_dependents: bool = False,
        rerun_with: str = "",
        tasks: int | None = None,
    ) -> JobRow | None:
        """Begin the next run of a job, with its own deadline; None if the job changed since it was read.

        `expires`: until when the run waits for the jobs that an earlier one still waited for when it ended.
        `params`: the parameters of the new run, if they change. `tasks`: how many tasks count against the
        limits of its application, None if they do not; raises LimitExceeded.
        """
        text = json.dumps(redo, separators=(",", ":"))
        state = (JobState.INIT if expires is None else JobState.WAITING).value
        update = Update(keys.job(job.id)).set(
            run=job.run + 1, **indexes.job_state(job.id, state), redo=text, update_time=now
        )
        if expires is not None:
            update.set(expires=expires, unmet=True)
        if params is not None:
            update.set(params=to_json(params))
        update.set(with_dependents=with_dependents or None, rerun_with=rerun_with or None)
        update.set(**indexes.due_job(job.id, due))
        change = Change(now, state, job.run + 1, actor, reason)
        update.remove("notes", "last_failed", "started_time", "completed_time", "parked", "let_finish")
        update.remove("event_pending", "heirs_pending", "replaces", "planning", "first_missing", "notifying")
        update.set(owed=owes_success(job) or None)
        update.if_equal(run=job.run).if_in("state", [source.value for source in sources])
        if deadline is not None:
            update.set(deadline=deadline, late=False)
        if deadline is not None or job.unique or tasks is not None:
            update.append("history", change.encode())
            return self._begin_run(job, update, deadline, tasks)
        try:
            return JobRow.from_item(update_with_history(self._table, update, change))
        except ConditionFailed:
            return None

    def _begin_run(
        self, job: JobRow, update: Update, deadline: int | None, tasks: int | None
    ) -> JobRow | None:
        """Update a job and the rows that go with its run; None if one of them changed since it was read."""
        rows = [self._table.put_request(each) for each in deadline_rows(job.id, deadline)]
        rows += self._only_run(job.evolve(run=job.run + 1))
        counted, wanted = self._usage.run_claim(job, tasks) if tasks is not None else ([], Limits())
        if tasks is not None:
            update.set(counted_tasks=tasks).if_equal(counted_tasks=job.counted_tasks)
        try:
            self._table.transact([self._table.update_request(update), *rows, *counted])
        except TransactionRefused as refused:
            if counted and refused.failed == [len(rows) + 1]:
                raise LimitExceeded(job.app_name, wanted) from refused
            return None
        return self.get(job.id)

    def change(
        self,
        job: JobRow,
        *,
        changes: dict[str, Any],
        priority: int,
        groups: set[str],
        now: int,
        due: int,
        actor: str,
        reason: str,
    ) -> JobRow | None:
        """Store the requested changes of a job's steps; None if the job ended or changed since."""
        update = Update(keys.job(job.id)).set(
            changes=to_json(changes), unapplied=True, priority=priority, groups=groups, update_time=now
        )
        update.set(**indexes.due_job(job.id, due))
        update.if_equal(run=job.run, state=job.state.value, changes=to_json(job.changes))
        change = Change(now, job.state.value, job.run, actor, reason)
        try:
            return JobRow.from_item(update_with_history(self._table, update, change))
        except ConditionFailed:
            return None

    def changes_applied(self, job: JobRow) -> bool:
        """Mark the requested changes as applied; False if others were requested since."""
        done = Update(keys.job(job.id)).remove("unapplied").if_equal(changes=to_json(job.changes))
        try:
            self._table.update(done)
        except ConditionFailed as changed:
            return changed.old is None
        return True

    def clear_after(self, job: JobRow) -> None:
        """Note that the job which this one is queued after has ended."""
        self._update_if_unchanged(Update(keys.job(job.id)).remove("after").if_equal(after=job.after))

    def clear_replaces(self, job: JobRow) -> None:
        """Note that the job which this one replaces has ended."""
        self._update_if_unchanged(Update(keys.job(job.id)).remove("replaces").if_equal(replaces=job.replaces))

    def page(
        self, *, job_name: str | None, state: str | None, before: int | None, limit: int
    ) -> Iterator[JobRow]:
        """The jobs of a definition, else in a state, else all, newest first, read `limit` at a time."""
        partitions, index = indexes.all_jobs(), indexes.LIST
        if job_name:
            partitions, index = [indexes.jobs_named(job_name)], indexes.NAME
        elif state:
            partitions, index = indexes.jobs_in(state), indexes.STATE
        between = indexes.jobs_before(before)
        items = indexes.listed_rows(
            self._table, partitions, index, between=between, newest_first=True, limit=limit
        )
        return map(JobRow.from_item, items)

    def live(self) -> Iterator[JobRow]:
        """The jobs that have not ended, in any order; reads all of them."""
        states = [state.value for state in JobState if not state.ended]
        for partition in (each for state in states for each in indexes.jobs_in(state)):
            items = self._table.query(partition, index=indexes.STATE, only=keys.KEY)
            found = self.by_id(map(keys.parse_job, items))
            yield from (job for job in found.values() if not job.state.ended)

    def needing(self, group: str) -> Iterator[tuple[str, str]]:
        """The name and trigger of each job that has not ended and has steps for a group."""
        wanted = ("job_name", "trigger", "groups")
        live = [state for state in JobState if not state.ended]
        for jobs in (partition for state in live for partition in indexes.jobs_in(state.value)):
            for item in self._table.query(jobs, index=indexes.STATE, only=wanted):
                if group in item.get("groups", ()):
                    yield item["job_name"], item["trigger"]
