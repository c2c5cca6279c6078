"""Steps and gates: the nodes of a job's graph, in the same partition as the job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from shardmill.model.history import ENGINE, Change
from shardmill.model.states import JobState, StepState, step_sources_of
from shardmill.store import keys
from shardmill.store.codec import to_json
from shardmill.store.history import update_with_history
from shardmill.store.rows import JobRow, StepRow
from shardmill.store.table import TRANSACTION_LIMIT, ConditionFailed, Table, TransactionRefused
from shardmill.store.update import Item, Update

_TRANSACTION_BYTES = 3_000_000


class Steps:
    def __init__(self, table: Table) -> None:
        self._table = table

    def add_steps(self, job: JobRow, steps: Sequence[StepRow]) -> bool:
        """Write the step rows that do not exist yet; False if the job ended or changed since it was read."""
        check = Update(keys.job(job.id)).if_equal(run=job.run, changes=to_json(job.changes))
        check.if_in("state", [state.value for state in JobState if not state.ended])
        guard = self._table.check_request(check)
        rows = [
            self._table.put_request(
                {**keys.step(step.job_id, step.run, step.index), **step.to_item()}, new=True
            )
            for step in steps
        ]
        return all(self._add_chunk(guard, chunk) for chunk in _chunks(rows))

    def _add_chunk(self, guard: Item, rows: list[Item]) -> bool:
        while rows:
            try:
                self._table.transact([guard, *rows])
                return True
            except TransactionRefused as refused:
                if 0 in refused.failed:
                    return False
                there = {at - 1 for at in refused.failed}
                rows = [row for at, row in enumerate(rows) if at not in there]
        return True

    def note_planning(self, job: JobRow, *, unfinished: bool) -> JobRow | None:
        """Note whether the steps of a run are planned in part, and return the job; None if its run ended."""
        update = Update(keys.job(job.id)).set(planning=unfinished or None).if_equal(run=job.run)
        update.if_in("state", [state.value for state in JobState if not state.ended])
        try:
            return JobRow.from_item(self._table.update(update, returns="ALL_NEW"))
        except ConditionFailed:
            return None

    def note_files_copied(self, job_id: str) -> bool:
        """Note that the files submitted with a job are copied; False if the job is or is being deleted."""
        update = Update(keys.job(job_id)).set(files_pending=None).if_exists("job_name")
        try:
            return not JobRow.from_item(self._table.update(update, returns="ALL_NEW")).purge
        except ConditionFailed:
            return False

    def step(self, job_id: str, run: int, index: int) -> StepRow | None:
        item = self._table.get(keys.step(job_id, run, index))
        return StepRow.from_item(item) if item else None

    def with_step(self, job_id: str, run: int, index: int) -> tuple[JobRow, StepRow] | None:
        """Read a job and one of its steps together; None if either is missing."""
        items = self._table.batch_get([keys.job(job_id), keys.step(job_id, run, index)])
        job = next((item for item in items if keys.is_job(item)), None)
        step = next((item for item in items if not keys.is_job(item)), None)
        return (JobRow.from_item(job), StepRow.from_item(step)) if job and step else None

    def steps(
        self,
        job_id: str,
        run: int,
        *,
        first: int = 0,
        last: int = keys.MAX_STEP,
        consistent: bool = True,
    ) -> list[StepRow]:
        """The nodes of a run in order, gates included; all, or only `first` to `last`."""
        partition, bounds = keys.steps_of_run(job_id, run, first, last)
        items = self._table.query(partition, between=bounds, consistent=consistent)
        return [StepRow.from_item(item) for item in items]

    def is_planned(self, job_id: str, run: int) -> bool:
        """Whether all nodes of a run have rows: they are written in several transactions, the end last."""
        partition, bounds = keys.steps_of_run(job_id, run)
        last = self._table.query(partition, between=bounds, newest_first=True, consistent=True, limit=1)
        return next((StepRow.from_item(item).kind == "end" for item in last), False)

    def first_steps(self, job_id: str, *, limit: int) -> list[StepRow]:
        """The first nodes of the first runs of a job that still have rows."""
        partition, bounds = keys.steps_of_runs(job_id)
        items = self._table.query(partition, between=bounds, consistent=True, limit=limit)
        return [StepRow.from_item(item) for item in islice(items, limit)]

    def remove_steps(self, steps: Iterable[StepRow]) -> None:
        self._table.batch_delete([keys.step(*step.key) for step in steps])

    def steps_by_key(
        self, wanted: Iterable[keys.StepKey], *, consistent: bool = True
    ) -> dict[keys.StepKey, StepRow]:
        items = self._table.batch_get([keys.step(*key) for key in wanted], consistent=consistent)
        rows = (StepRow.from_item(item) for item in items)
        return {(row.job_id, row.run, row.index): row for row in rows}

    def move_step(
        self,
        step: StepRow,
        state: StepState,
        *,
        now: int,
        actor: str = ENGINE,
        reason: str = "",
        same_gen: bool = False,
        **changes: Any,
    ) -> StepRow | None:
        """Move a step to a state if its present state allows it, and return it; else None.

        `same_gen`: only if its generation is still the one that was read.
        """
        update = self._step_update(step).set(**changes)
        if same_gen:
            update.if_equal(gen=step.gen)
        why = reason or changes.get("notes") or ""
        return self._move_step(step.run, update, state, step_sources_of(state), now, actor, why)

    def _move_step(
        self,
        run: int,
        update: Update,
        state: StepState,
        sources: Iterable[StepState],
        now: int,
        actor: str = ENGINE,
        reason: str = "",
    ) -> StepRow | None:
        update.set(state=state.value, update_time=now)
        if state is StepState.READY:
            update.set(sent_time=now).set_once("queued_time", now)
        update.if_in("state", [source.value for source in sources])
        change = Change(now, state.value, run, actor, reason)
        try:
            return StepRow.from_item(update_with_history(self._table, update, change))
        except ConditionFailed:
            return None

    def release(self, finished: StepRow, index: int, **marks: bool) -> StepRow:
        """Remove a finished node from `waiting_for` of the step `index`, and set marks on that step."""
        update = Update(keys.step(finished.job_id, finished.run, index))
        update.delete("waiting", {str(finished.index)})
        update.set(**{name: True for name, holds in marks.items() if holds})
        return StepRow.from_item(self._table.update(update.if_exists("state"), returns="ALL_NEW"))

    def close_block(self, step: StepRow, member: str, counts: dict[str, int], *, active: int) -> StepRow:
        """Remove a finished block (or set of blocks) from the open ones, and add its counts exactly once.

        `active`: when its last task was reported.
        """
        update = self._step_update(step).delete("open", {member}).add(**counts).set(active_time=active)
        try:
            return StepRow.from_item(
                self._table.update(update.if_contains("open", member), returns="ALL_NEW")
            )
        except ConditionFailed as closed:
            return StepRow.from_item(closed.old or {})

    def count_failures(self, step: StepRow, member: str, failures: int) -> StepRow:
        """Store how many tasks of a block have failed; the number only grows, so a repeat is harmless."""
        update = self._step_update(step).raise_to(failures, "failed_blocks", member)
        try:
            return StepRow.from_item(self._table.update(update, returns="ALL_NEW"))
        except ConditionFailed as known:
            return StepRow.from_item(known.old or {})

    def begin_step(self, step: StepRow, *, now: int) -> StepRow | None:
        """Record the first lease of a READY step's tasks; None if its state or generation changed since.

        `step` may come from a cache. Without these conditions, it would end a suspension that is newer.
        """
        update = self._step_update(step).set(started_time=now).if_equal(gen=step.gen)
        return self._move_step(step.run, update, StepState.RUNNING, [StepState.READY], now)

    def park_step(self, step: StepRow, *, let_finish: bool, now: int) -> StepRow | None:
        """Suspend a step with open tasks and invalidate its messages; None if it changed since."""
        update = self._step_update(step).set(gen=step.gen + 1, let_finish=let_finish or None)
        update.if_equal(gen=step.gen).if_exists("open")
        return self._move_step(
            step.run, update, StepState.SUSPENDED, [StepState.READY, StepState.RUNNING], now
        )

    def unpark_step(self, step: StepRow, state: StepState, *, now: int) -> StepRow | None:
        """Resume a suspended step under a new generation."""
        update = self._step_update(step).set(gen=step.gen + 1, resend=True, let_finish=None)
        return self._move_step(step.run, update.if_equal(gen=step.gen), state, [StepState.SUSPENDED], now)

    def note_end_progress(self, step: StepRow, cursor: str) -> StepRow | None:
        """Note how far the tasks of an ended step have been ended; see `set_counts`."""
        return self._continue_end(step, self._step_update(step).set(end_cursor=cursor))

    def set_counts(self, step: StepRow, **counts: int) -> StepRow | None:
        """Store how the tasks of an ended step ended, which completes its end.

        Returns the step; as it is now if another call was faster, None if it was deleted.
        """
        update = self._step_update(step).set(**counts).remove("open", "token", "ending", "end_cursor")
        return self._continue_end(step, update)

    def _continue_end(self, step: StepRow, update: Update) -> StepRow | None:
        update.if_equal(state=step.state.value, ending=True, end_cursor=step.end_cursor or None)
        try:
            return StepRow.from_item(self._table.update(update, returns="ALL_NEW"))
        except ConditionFailed as changed:
            return StepRow.from_item(changed.old) if changed.old else None

    def stop_step(self, step: StepRow, *, notes: str, kill: bool = False) -> StepRow | None:
        """Mark a step as stopping, unless it is already; `kill`: by request, not because of failures."""
        update = self._step_update(step).set(stopping=True, notes=notes, kill=kill)
        update.if_equal(**({"kill": False} if kill else {"stopping": False}))
        try:
            return StepRow.from_item(self._table.update(update, returns="ALL_NEW"))
        except ConditionFailed:
            return None

    def raise_generation(self, step: StepRow, **changes: Any) -> StepRow | None:
        """Invalidate all messages sent for a step; None if it changed since it was read, or is not open."""
        update = self._step_update(step).set(gen=step.gen + 1, resend=True, **changes)
        update.if_equal(gen=step.gen)
        update.if_in("state", [StepState.READY.value, StepState.RUNNING.value])
        try:
            return StepRow.from_item(self._table.update(update, returns="ALL_NEW"))
        except ConditionFailed:
            return None

    def change_step(self, step: StepRow, **changes: Any) -> StepRow | None:
        """Change a step without resending its messages; None if it changed since it was read.

        The generation of a waiting step is raised, so that a concurrent opening fails and starts over with
        the changed row.
        """
        raised = step.gen + (step.state is StepState.WAITING)
        update = self._step_update(step).set(gen=raised, **changes)
        update.if_equal(gen=step.gen, state=step.state.value)
        try:
            return StepRow.from_item(self._table.update(update, returns="ALL_NEW"))
        except ConditionFailed:
            return None

    def set_window(self, step: StepRow, window: int) -> StepRow | None:
        """Change the window of a step whose messages have not been sent yet."""
        update = self._step_update(step).set(window=window).if_equal(gen=step.gen, window=step.window)
        try:
            return StepRow.from_item(self._table.update(update, returns="ALL_NEW"))
        except ConditionFailed:
            return None

    def note_check(self, step: StepRow, *, checked_time: int, checks: int, active_time: int) -> bool:
        """Note that the delivery of a step's messages is checked; False if the step changed since."""
        update = self._step_update(step).set(
            checked_time=checked_time, checks=checks, active_time=active_time or None
        )
        update.if_equal(gen=step.gen, state=step.state.value)
        try:
            self._table.update(update)
        except ConditionFailed:
            return False
        return True

    def mark_sent(self, step: StepRow, *, now: int) -> None:
        """Note that all messages of a step's present generation have been sent."""
        update = self._step_update(step).set(resend=False, sent_time=now).if_equal(gen=step.gen)
        try:
            self._table.update(update)
        except ConditionFailed as newer:
            if newer.old is None:
                raise

    @staticmethod
    def _step_update(step: StepRow) -> Update:
        return Update(keys.step(step.job_id, step.run, step.index))

    def _update_if_unchanged(self, update: Update) -> None:
        """Apply an update that is obsolete if its condition fails; raises only if the row is gone."""
        try:
            self._table.update(update)
        except ConditionFailed as changed:
            if changed.old is None:
                raise


def _chunks(rows: list[Item]) -> Iterator[list[Item]]:
    chunk: list[Item] = []
    size = 0
    for row in rows:
        row_size = len(str(row))
        if chunk and (len(chunk) == TRANSACTION_LIMIT - 1 or size + row_size > _TRANSACTION_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(row)
        size += row_size
    if chunk:
        yield chunk
