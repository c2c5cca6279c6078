"""The use of the limits of applications: a row of counters for each application.

A counter changes only in the transaction that marks or unmarks what it counts: a job with `counted_tasks` and
`counted_bytes`, a definition or a schedule with `counted_in`. So a repetition after a crash changes nothing,
and each counter is the sum over the marks. Without limits nothing is counted, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Sequence

from shardmill.model.access.limits import Limits
from shardmill.model.states import JobState
from shardmill.store import keys
from shardmill.store.rows import JobRow, ScheduleRow, StepRow
from shardmill.store.table import Table, TransactionRefused
from shardmill.store.update import Item, Update

_ENDED = [state.value for state in JobState if state.ended]
_LIVE = [state.value for state in JobState if not state.ended]


class LimitExceeded(Exception):
    """A write would exceed a limit of an application; nothing was written."""

    def __init__(self, application: str, wanted: Limits) -> None:
        super().__init__(self.__doc__)
        self.application = application
        self.wanted = wanted


class Usage:
    def __init__(self, table: Table, limits: Limits) -> None:
        self._table = table
        self.limits = limits

    def of(self, application: str) -> Limits:
        """The present use of an application."""
        item = self._table.get(keys.application(application)) or {}
        return Limits(*(item.get(name, 0) for name in Limits._fields))

    def job_claim(self, job: JobRow) -> list[Item]:
        """The write that counts a new job; empty if it is not counted."""
        if job.counted_tasks is None:
            return []
        return [self.change(job.app_name, Limits(jobs=1, tasks=job.counted_tasks))]

    def run_claim(self, job: JobRow, tasks: int) -> tuple[list[Item], Limits]:
        """The write that counts the next run of a job, and the added numbers; the job may be counted
        already."""
        wanted = Limits(jobs=int(job.counted_tasks is None), tasks=tasks - (job.counted_tasks or 0))
        return ([self.change(job.app_name, wanted)] if any(wanted) else []), wanted

    def change(self, application: str, amounts: Limits, *, check: bool = True) -> Item:
        """The request that changes the counters of an application, on condition that they fit the limits."""
        changed = {name: amount for name, amount in amounts._asdict().items() if amount}
        update = Update(keys.application(application)).add(**changed)
        for name, limit in self.limits._asdict().items() if check else ():
            if limit and changed.get(name, 0) > 0:
                update.if_at_most(name, limit - changed[name])
        if check and self.limits.bytes and amounts.jobs > 0:
            update.if_at_most("bytes", self.limits.bytes - 1)
        return self._table.update_request(update)

    def moves(self, old: str, new: str, one: Limits) -> list[Item]:
        """The writes that move a count to another application; the claim is the last one.

        `old`, `new`: the applications as `keys.application_reference` writes them, or empty.
        """
        less = Limits(*(-each for each in one))
        released = [self.change(keys.parse_application(old), less)] if old and old != new else []
        claimed = [self.change(keys.parse_application(new), one)] if new and old != new else []
        return released + claimed

    def reference(self, application: str, known: str = "") -> str:
        """The application that counts a row saved now; `known`: the one that counted it before."""
        return keys.application_reference(application) if self.limits.any else known

    def release_job(self, job: JobRow, stored: int | None) -> bool:
        """Stop counting a job that has ended; False if it is not counted or changed since it was read.

        `stored`: the bytes of its files, which count from now on; None if they are not measured.
        """
        if job.counted_tasks is None:
            return False
        mark = Update(keys.job(job.id)).remove("counted_tasks").if_in("state", _ENDED)
        mark.if_equal(run=job.run, counted_tasks=job.counted_tasks)
        more = 0
        if stored is not None:
            mark.set(counted_bytes=stored).if_equal(counted_bytes=job.counted_bytes)
            more = stored - (job.counted_bytes or 0)
        less = Limits(jobs=-1, tasks=-job.counted_tasks, bytes=more)
        return self._write([self._table.update_request(mark), self.change(job.app_name, less, check=False)])

    def release_bytes(self, job: JobRow) -> bool:
        """Stop counting the files of a job that were removed."""
        if job.counted_bytes is None:
            return False
        mark = Update(keys.job(job.id)).remove("counted_bytes").if_equal(counted_bytes=job.counted_bytes)
        less = Limits(bytes=-job.counted_bytes)
        requests = [self._table.update_request(mark)]
        return self._write([*requests, *([self.change(job.app_name, less)] if any(less) else [])])

    def claim_tasks(self, job: JobRow, step: StepRow, tasks: int) -> bool:
        """Count the tasks of a step whose number was not known before. Idempotent.

        False if the job or the step changed. Raises LimitExceeded.
        """
        mark = Update(keys.step(*step.key)).set(counted=True).if_exists("state")
        mark.if_new_or_equal("counted", False)
        of_job = Update(keys.job(job.id)).add(counted_tasks=tasks).if_exists("counted_tasks")
        of_job.if_equal(run=job.run).if_in("state", _LIVE)
        requests = [self._table.update_request(each) for each in (mark, of_job)]
        wanted = Limits(tasks=tasks)
        try:
            self._table.transact([*requests, self.change(job.app_name, wanted)])
        except TransactionRefused as refused:
            if refused.failed == [len(requests)]:
                raise LimitExceeded(job.app_name, wanted) from refused
            return False
        return True

    def count_job(self, job: JobRow, tasks: int) -> bool:
        """Count a live job that was submitted before there were limits, even beyond them."""
        mark = Update(keys.job(job.id)).set(counted_tasks=tasks).if_equal(run=job.run, counted_tasks=None)
        mark.if_in("state", _LIVE)
        more = self.change(job.app_name, Limits(jobs=1, tasks=tasks), check=False)
        return self._write([self._table.update_request(mark), more])

    def count_definition(self, job_name: str, version: int, application: str) -> bool:
        """Count a definition that was saved before there were limits, even beyond them."""
        mark = Update(keys.definition_head(job_name)).if_equal(version=version, deleted=None)
        return self._count(mark, application, Limits(definitions=1))

    def count_schedule(self, row: ScheduleRow, application: str) -> bool:
        """Count a schedule that was saved before there were limits, even beyond them."""
        mark = Update(keys.schedule(*row.key)).set(rev=row.rev + 1).if_equal(rev=row.rev)
        return self._count(mark, application, Limits(schedules=1))

    def _count(self, mark: Update, application: str, one: Limits) -> bool:
        mark.set(counted_in=keys.application_reference(application)).if_equal(counted_in=None)
        more = self.change(application, one, check=False)
        return self._write([self._table.update_request(mark), more])

    def counted(self) -> tuple[str, int]:
        """The limits for which all existing rows were counted, and when."""
        item = self._table.get(keys.counted_limits()) or {}
        return str(item.get("limits", "")), int(item.get("time", 0))

    def everything_counted(self, now: int) -> None:
        self._table.update(Update(keys.counted_limits()).set(limits=self.limits.text, time=now))

    def _write(self, requests: Sequence[Item]) -> bool:
        try:
            self._table.transact(requests)
        except TransactionRefused:
            return False
        return True
