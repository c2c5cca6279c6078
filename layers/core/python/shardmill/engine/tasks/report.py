"""Reporting tasks: one conditional write a block, then what follows from the ends."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from shardmill.aws.queues import MAX_DELAY_SECONDS, Message
from shardmill.engine.errors import OutputTooLarge
from shardmill.engine.mill import Mill
from shardmill.engine.task_id import parse_task_id
from shardmill.engine.tasks import completion, messages
from shardmill.engine.tasks.attempts import was_cut_off
from shardmill.engine.tasks.messages import lease_time, seconds_until
from shardmill.engine.tasks.retry import DISCARDED, TIMED_OUT, Outcome, Rules, on_report
from shardmill.engine.tasks.work_item import Receipt
from shardmill.model.base import to_ms
from shardmill.model.blocks import UNTOUCHED, Block, Shard, block_of
from shardmill.model.fault import fault
from shardmill.model.states import TaskState
from shardmill.model.transfers import MAX_STORED_BYTES, as_stored
from shardmill.model.worker import MAX_OUTPUT_BYTES, Reported, Result, output_size
from shardmill.store.rows import StepRow
from shardmill.store.shards import BlockChanged, TaskOutput
from shardmill.store.workers import Tally

TAIL = 4096
_TRIES = 6
_REASONS = (TIMED_OUT, DISCARDED)
_ENDS = {Outcome.SUCCESS: TaskState.SUCCESS, Outcome.FAILED_PERMANENT: TaskState.FAILED}


@dataclass(slots=True)
class _Entry:
    """One result on its way: what it says, and what the reporter believes the shard's value to be."""

    result: Result
    rank: int
    believed: Shard | None
    message: Message | None
    gen: int = 0
    status: str = ""
    shard: Shard | None = None

    @property
    def held(self) -> Shard:
        return self.believed or UNTOUCHED

    @property
    def ended(self) -> bool:
        return self.shard is not None and self.shard.state.ended


def report(
    mill: Mill,
    worker_id: str,
    results: Sequence[Result],
    now: int,
    *,
    groups: Collection[str] | None = None,
    tally: Tally | None = None,
    trusted: bool = True,
) -> list[Reported]:
    """Take the results of a worker's attempts; what became of each.

    `groups`: those of the worker, so that it can be told when a task is none of its business. `tally`: what
    the worker did is added to it. `trusted`: the worker could write the table itself, so its receipts are
    believed until a condition says otherwise; of others, the rows are read before anything is kept.
    """
    _check_outputs(results)
    entries: dict[int, _Entry] = {}
    blocks: dict[tuple[str, int, int], dict[int, list[_Entry]]] = {}
    for at, result in enumerate(results):
        place = _place(mill, result)
        if not place:
            continue
        key, entry = place
        if not trusted:
            entry.believed = None
        entries[at] = entry
        blocks.setdefault(key, {}).setdefault(block_of(entry.rank), []).append(entry)
    steps = mill.recent_steps.get(blocks, mill.jobs.steps_by_key, now)
    for key, numbers in blocks.items():
        step = steps.get(key)
        if step:
            _report_step(mill, worker_id, step, numbers, now)
            if groups is not None and not set(groups).intersection(step.groups):
                _strangers(numbers)
    if tally is not None:
        _count(tally, entries.values(), now)
    return [_answer(result, entries.get(at)) for at, result in enumerate(results)]


def _check_outputs(results: Sequence[Result]) -> None:
    for at, result in enumerate(results):
        for name, told, most in (
            ("output", result.output, MAX_OUTPUT_BYTES),
            ("files", as_stored(result.files or ()), MAX_STORED_BYTES),
        ):
            size = 0 if told is None else output_size(told)
            if size > most:
                text = f"has {size} bytes; {most} fit, larger data belongs into a file"
                raise OutputTooLarge(
                    f"what {result.task_id} hands on is too large; nothing was taken",
                    faults=[fault(("results", at, name), "output-too-large", text).model_dump()],
                )


def _strangers(numbers: dict[int, list[_Entry]]) -> None:
    for entries in numbers.values():
        for entry in entries:
            if entry.status not in ("ok", "already"):
                entry.status = "wrong-group"


def _count(tally: Tally, entries: Iterable[_Entry], now: int) -> None:
    for entry in entries:
        failed = entry.result.outcome != Outcome.SUCCESS.value and entry.result.reason != DISCARDED
        if failed and entry.status in ("ok", "already"):
            tally.skip.add(entry.result.task_id)
        if entry.status != "ok" or entry.shard is None:
            continue
        span = max(0, now - entry.held.time)
        if entry.result.outcome == Outcome.SUCCESS.value:
            tally.success(entry.result.task_id, span)
        elif entry.result.outcome == Outcome.REJECTED.value or entry.result.reason == DISCARDED:
            tally.done.add(entry.result.task_id)
        else:
            tally.failure(entry.result.task_id, span)


def _place(mill: Mill, result: Result) -> tuple[tuple[str, int, int], _Entry] | None:
    where = parse_task_id(result.task_id)
    if not where:
        return None
    job_id, index, rank = where
    receipt = Receipt.decode(result.receipt) if result.receipt else None
    if receipt:
        return (job_id, receipt.run, index), _Entry(result, rank, receipt.shard, receipt.message, receipt.gen)
    job = mill.jobs.get(job_id)
    return ((job_id, job.run, index), _Entry(result, rank, None, None)) if job else None


def _answer(result: Result, entry: _Entry | None) -> Reported:
    return Reported(
        task_id=result.task_id,
        attempt=result.attempt,
        status=entry.status if entry and entry.status else "unknown-task",
        state=entry.shard.state if entry and entry.shard else None,
    )


def _report_step(
    mill: Mill, worker_id: str, step: StepRow, numbers: dict[int, list[_Entry]], now: int
) -> None:
    numbers = {
        number: inside
        for number, listed in numbers.items()
        if (inside := [entry for entry in listed if entry.rank < step.total])
    }
    entries = [entry for listed in numbers.values() for entry in listed]
    _believe(mill, step, entries)
    held = [entry for entry in entries if _standing(entry.held, entry.result, worker_id) == "ok"]
    _keep_attempts(mill, worker_id, step, held, now)
    mill.shards.put_outputs(
        (step, entry.rank, entry.result.attempt, _kept(entry.result))
        for entry in held
        if entry.result.outcome == Outcome.SUCCESS.value and _leaves(entry.result)
    )
    for number, listed in numbers.items():
        _report_block(mill, worker_id, step, number, listed, now)
    late = [entry for entry in entries if entry.status == "stale-attempt"]
    late = [entry for entry in late if was_cut_off(mill, step, entry.rank, entry.result.attempt, worker_id)]
    _keep_attempts(mill, worker_id, step, late, now, reason=DISCARDED)
    for status in ("ok", "already"):
        ended = [entry.rank for entry in entries if entry.status == status and entry.ended]
        completion.send_next(mill, step, ended, now, repeated=status == "already")
    _part_with_messages(mill, step, entries, now)


def _leaves(result: Result) -> bool:
    return result.output is not None or bool(result.files)


def _kept(result: Result) -> TaskOutput:
    return TaskOutput(result.output, as_stored(result.files or ()))


def _believe(mill: Mill, step: StepRow, entries: list[_Entry]) -> None:
    """Read what results that came without a receipt are about."""
    unknown = [entry for entry in entries if entry.believed is None]
    if unknown:
        blocks = mill.shards.blocks(step, {block_of(entry.rank) for entry in unknown})
        for entry in unknown:
            entry.believed = blocks[block_of(entry.rank)][entry.rank]


def _report_block(
    mill: Mill, worker_id: str, step: StepRow, number: int, entries: list[_Entry], now: int
) -> None:
    """Write what the results make of their shards, where the reporter still holds them."""
    rules = Rules.of(step)
    block: Block | None = None
    for _ in range(_TRIES):
        changes: dict[int, Shard] = {}
        expected: dict[int, Shard | None] = {}
        for entry in entries:
            shard = block[entry.rank] if block else entry.held
            entry.status = _standing(shard, entry.result, worker_id, over=step.state.ended)
            entry.shard = shard
            if entry.status == "ok" and entry.rank in changes:
                entry.status = _again_in_one_report(entries, entry)
            elif entry.status == "ok":
                stopping = step.stopping or bool(block and block.swept)
                changes[entry.rank] = on_report(
                    shard,
                    rules,
                    Outcome(entry.result.outcome),
                    reason=entry.result.reason or "",
                    now=now,
                    stopping=stopping,
                )
                expected[entry.rank] = shard
        retried = any(shard.state is TaskState.READY for shard in changes.values())
        try:
            if changes:
                block = mill.shards.change(step, number, expected, changes, unswept=retried)
            elif block is None:
                block = mill.shards.blocks(step, [number])[number]
                continue
        except BlockChanged as changed:
            block = changed.block
            continue
        break
    else:
        raise BlockChanged(mill.shards.blocks(step, [number])[number])
    for entry in entries:
        if entry.rank in changes and entry.status in ("ok", "already"):
            entry.shard = changes[entry.rank]
    completion.after_end(mill, step, block)


def _again_in_one_report(entries: list[_Entry], entry: _Entry) -> str:
    first = next(each for each in entries if each.rank == entry.rank)
    return "already" if first.result.outcome == entry.result.outcome else "stale-attempt"


def _standing(shard: Shard, result: Result, worker_id: str, *, over: bool = False) -> str:
    """Whether the reporter holds the task still, has reported the same already, or is too late.

    `over`: the step has ended, by a kill that knew nothing of the lease if the task seems to run.
    """
    mine = shard.attempt == result.attempt and shard.worker_id == worker_id
    if not mine:
        stale = result.attempt < shard.attempt or shard.worker_id == worker_id
        return "stale-attempt" if stale else "foreign-attempt"
    if shard.state is TaskState.RUNNING:
        return "stale-attempt" if over else "ok"
    outcome = Outcome(result.outcome)
    same = shard.state is _ENDS.get(outcome) or (
        outcome in (Outcome.FAILED, Outcome.REJECTED)
        and shard.state in (TaskState.FAILED, TaskState.READY, TaskState.KILLED)
    )
    return "already" if same else "stale-attempt"


def _keep_attempts(
    mill: Mill, worker_id: str, step: StepRow, entries: Iterable[_Entry], now: int, *, reason: str = ""
) -> None:
    """Keep what there is to say of the attempts, before the rows that end them."""
    kept: list[tuple[StepRow, int, dict[str, Any]]] = []
    for entry in entries:
        result = entry.result
        failed = result.outcome != Outcome.SUCCESS.value
        attempt = {
            "attempt": result.attempt,
            "worker": worker_id,
            "outcome": result.outcome,
            "exitCode": result.exit_code,
            "reason": (reason or _reason(result)) if failed or reason else None,
            "message": _message(step, result) if failed else None,
            "startTime": entry.held.time,
            "endTime": _ended(entry, now),
            "stdout": (result.stdout or "")[-TAIL:] or None,
            "stderr": (result.stderr or "")[-TAIL:] or None,
        }
        if attempt["reason"] or attempt["stdout"] or attempt["stderr"]:
            kept.append(
                (step, entry.rank, {name: value for name, value in attempt.items() if value is not None})
            )
    if kept:
        mill.shards.put_attempts(kept)


def _ended(entry: _Entry, now: int) -> int:
    """When the worker says the attempt ended, so far as that can be: a repeat says the same again."""
    told = entry.result.end_time
    return now if told is None else min(max(to_ms(told), entry.held.time), now)


def _message(step: StepRow, result: Result) -> str | None:
    if result.reason == TIMED_OUT:
        return f"longer than timeoutSeconds, {step.settings.timeout_seconds}"
    return None if result.reason == DISCARDED else result.reason


def _reason(result: Result) -> str:
    """Why an attempt did not succeed, in one of a few words."""
    if result.reason in _REASONS:
        return result.reason
    return "rejected" if result.outcome == Outcome.REJECTED.value else "failed"


def _part_with_messages(mill: Mill, step: StepRow, entries: Iterable[_Entry], now: int) -> None:
    """The message of an ended task goes; that of one to be tried again shows when its time has come.

    A task that ran longer than its lease may have lost its message to another receiver, who hid it for long,
    and one that was leased before its step was changed has a void one: it gets a new one.
    """
    counted = [entry for entry in entries if entry.status in ("ok", "already")]
    settled = [entry.message for entry in counted if entry.message and entry.ended]
    again = [
        (entry, entry.shard)
        for entry in counted
        if entry.shard and entry.shard.state is TaskState.READY and entry.status == "ok"
    ]
    lease_ms = lease_time(mill, step, now)
    fresh = [
        (e, shard)
        for e, shard in again
        if e.message and e.gen == step.gen and now - e.held.time < lease_ms * 0.8
    ]
    if settled:
        mill.queues.delete(settled)
    if fresh:
        mill.queues.hide((e.message, seconds_until(shard.time, now)) for e, shard in fresh if e.message)
    for entry, shard in again:
        if (entry, shard) not in fresh:
            delay = min(seconds_until(shard.time, now), MAX_DELAY_SECONDS)
            messages.send_if_possible(mill, step, [entry.rank], now, delay=delay)
