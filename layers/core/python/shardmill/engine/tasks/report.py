"""Report tasks: one conditional write for each block, then the consequences of the tasks that ended."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from shardmill.aws.queues import MAX_DELAY_SECONDS, Message
from shardmill.engine.errors import OutputTooLarge
from shardmill.engine.mill import Mill
from shardmill.engine.task_id import parse_task_id
from shardmill.engine.tasks import completion, messages
from shardmill.engine.tasks.attempts import ReportedAttempt, end_time, ended_unreported, store_reported
from shardmill.engine.tasks.messages import lease_time, seconds_until
from shardmill.engine.tasks.retry import DISCARDED, Outcome, Rules, on_report
from shardmill.engine.tasks.work_item import Receipt
from shardmill.model.blocks import UNTOUCHED, Block, Shard, block_of
from shardmill.model.fault import fault
from shardmill.model.states import TaskState
from shardmill.model.timestamps import to_ms
from shardmill.model.transfers import MAX_STORED_BYTES, as_stored
from shardmill.model.worker import MAX_OUTPUT_BYTES, Reported, Result, output_size
from shardmill.store.rows import StepRow
from shardmill.store.shards import BlockChanged
from shardmill.store.tasks.results import TaskOutput
from shardmill.store.workers import Tally

_TRIES = 6
_END_STATES = {Outcome.SUCCESS: TaskState.SUCCESS, Outcome.FAILED_PERMANENT: TaskState.FAILED}


@dataclass(slots=True)
class _Entry:
    """A result, and the value of its shard according to the receipt (None until it is read)."""

    result: Result
    rank: int
    leased: Shard | None
    message: Message | None
    gen: int = 0
    run: int = 0
    status: str = ""
    shard: Shard | None = None

    @property
    def held(self) -> Shard:
        return self.leased or UNTOUCHED

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
    """Record the results of a worker's attempts. Returns the status of each.

    `groups`: the worker's groups; a result that does not count gets `wrong-group` if its task is in none.
    `tally`: receives the worker's totals. `trusted`: the worker can write the table itself, so its receipts
    are used until a condition fails; for other workers, the rows are read before anything is stored.
    """
    _check_outputs(results)
    entries: dict[int, _Entry] = {}
    blocks: dict[tuple[str, int, int], dict[int, list[_Entry]]] = {}
    for at, result in enumerate(results):
        located = _locate(mill, result)
        if not located:
            continue
        key, entry = located
        entry.run = key[1]
        if not trusted:
            entry.leased = None
        entries[at] = entry
        blocks.setdefault(key, {}).setdefault(block_of(entry.rank), []).append(entry)
    steps = mill.recent_steps.get(blocks, mill.jobs.steps_by_key, now)
    for key, numbers in blocks.items():
        step = steps.get(key)
        if step:
            _report_step(mill, worker_id, step, numbers, now)
            if groups is not None and not set(groups).intersection(step.groups):
                _mark_wrong_group(numbers)
    if tally is not None:
        _add_to_tally(tally, entries.values(), now)
    return [_answer(result, entries.get(at)) for at, result in enumerate(results)]


def _check_outputs(results: Sequence[Result]) -> None:
    for at, result in enumerate(results):
        for name, value, limit in (
            ("output", result.output, MAX_OUTPUT_BYTES),
            ("files", as_stored(result.files or ()), MAX_STORED_BYTES),
        ):
            size = 0 if value is None else output_size(value)
            if size > limit:
                text = f"has {size} bytes; the limit is {limit}: store larger data in a file"
                raise OutputTooLarge(
                    f"the output of {result.task_id} is too large; no result was recorded",
                    faults=[fault(("results", at, name), "output-too-large", text).model_dump()],
                )


def _locate(mill: Mill, result: Result) -> tuple[tuple[str, int, int], _Entry] | None:
    parsed = parse_task_id(result.task_id)
    if not parsed:
        return None
    job_id, index, rank = parsed
    receipt = Receipt.decode(result.receipt) if result.receipt else None
    if receipt:
        return (job_id, receipt.run, index), _Entry(result, rank, receipt.shard, receipt.message, receipt.gen)
    job = mill.jobs.get(job_id)
    return ((job_id, job.run, index), _Entry(result, rank, None, None)) if job else None


def _report_step(
    mill: Mill, worker_id: str, step: StepRow, numbers: dict[int, list[_Entry]], now: int
) -> None:
    numbers = {
        number: inside
        for number, listed in numbers.items()
        if (inside := [entry for entry in listed if entry.rank < step.total])
    }
    entries = [entry for listed in numbers.values() for entry in listed]
    _read_leased(mill, step, entries)
    held = [entry for entry in entries if _status(entry.held, entry.result, worker_id) == "ok"]
    store_reported(mill, worker_id, step, map(_attempt, held), now)
    mill.shards.put_outputs(
        (step, entry.rank, entry.result.attempt, _output(entry.result))
        for entry in held
        if entry.result.outcome == Outcome.SUCCESS.value and _has_output(entry.result)
    )
    for number, listed in numbers.items():
        _report_block(mill, worker_id, step, number, listed, now)
    late = [entry for entry in entries if entry.status == "stale-attempt"]
    unreported = [
        entry for entry in late if ended_unreported(mill, step, entry.rank, entry.result.attempt, worker_id)
    ]
    store_reported(mill, worker_id, step, map(_attempt, unreported), now, reason=DISCARDED)
    for status in ("ok", "already"):
        ended = [entry.rank for entry in entries if entry.status == status and entry.ended]
        completion.send_next(mill, step, ended, now, repeated=status == "already")
    _release_messages(mill, step, entries, now)


def _read_leased(mill: Mill, step: StepRow, entries: list[_Entry]) -> None:
    """Read the shards of results without a receipt."""
    missing = [entry for entry in entries if entry.leased is None]
    if missing:
        blocks = mill.shards.blocks(step, {block_of(entry.rank) for entry in missing})
        for entry in missing:
            entry.leased = blocks[block_of(entry.rank)][entry.rank]


def _attempt(entry: _Entry) -> ReportedAttempt:
    return ReportedAttempt(entry.rank, entry.result, entry.held.time)


def _has_output(result: Result) -> bool:
    return result.output is not None or bool(result.files)


def _output(result: Result) -> TaskOutput:
    return TaskOutput(result.output, as_stored(result.files or ()))


def _report_block(
    mill: Mill, worker_id: str, step: StepRow, number: int, entries: list[_Entry], now: int
) -> None:
    """Write the new values of the shards that the worker still holds."""
    rules = Rules.of(step)
    block: Block | None = None
    for _ in range(_TRIES):
        changes: dict[int, Shard] = {}
        expected: dict[int, Shard | None] = {}
        for entry in entries:
            shard = block[entry.rank] if block else entry.held
            entry.status = _status(shard, entry.result, worker_id, step_ended=step.state.ended)
            entry.shard = shard
            if entry.status == "ok" and entry.rank in changes:
                entry.status = _status_of_duplicate(entries, entry)
            elif entry.status == "ok":
                stopping = step.stopping or bool(block and block.swept)
                changes[entry.rank] = on_report(
                    shard,
                    rules,
                    Outcome(entry.result.outcome),
                    reason=entry.result.reason or "",
                    now=now,
                    stopping=stopping,
                    end_time=end_time(entry.result, shard.time, now),
                    compute_ms=_compute_ms(entry.result),
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


def _compute_ms(result: Result) -> int | None:
    return None if result.compute_seconds is None else int(result.compute_seconds * 1000)


def _ran_ms(result: Result, held_ms: int) -> int:
    """How long an attempt ran, at most for as long as the worker held the task; without times, that long."""
    computed = _compute_ms(result)
    if computed is not None:
        return computed
    if result.start_time is None or result.end_time is None:
        return held_ms
    return max(0, min(to_ms(result.end_time) - to_ms(result.start_time), held_ms))


def _status(shard: Shard, result: Result, worker_id: str, *, step_ended: bool = False) -> str:
    """Whether the worker still holds the attempt, already reported the same outcome, or is too late.

    `step_ended`: the step was killed. A shard of it may still be RUNNING, if it was leased concurrently.
    """
    mine = shard.attempt == result.attempt and shard.worker_id == worker_id
    if not mine:
        stale = result.attempt < shard.attempt or shard.worker_id == worker_id
        return "stale-attempt" if stale else "foreign-attempt"
    if shard.state is TaskState.RUNNING:
        return "stale-attempt" if step_ended else "ok"
    outcome = Outcome(result.outcome)
    same = shard.state is _END_STATES.get(outcome) or (
        outcome in (Outcome.FAILED, Outcome.REJECTED)
        and shard.state in (TaskState.FAILED, TaskState.READY, TaskState.KILLED)
    )
    return "already" if same else "stale-attempt"


def _status_of_duplicate(entries: list[_Entry], entry: _Entry) -> str:
    first = next(each for each in entries if each.rank == entry.rank)
    return "already" if first.result.outcome == entry.result.outcome else "stale-attempt"


def _release_messages(mill: Mill, step: StepRow, entries: Iterable[_Entry], now: int) -> None:
    """Delete the messages of ended tasks, and postpone the messages of retried tasks until their retry.

    A retried task gets a new message if its own may be unusable: if it ran for most of its lease, another
    worker may have received and hidden the message; if its step's generation changed, the message is void.
    """
    counted = [entry for entry in entries if entry.status in ("ok", "already")]
    ended = [entry.message for entry in counted if entry.message and entry.ended]
    retried = [
        (entry, entry.shard)
        for entry in counted
        if entry.shard and entry.shard.state is TaskState.READY and entry.status == "ok"
    ]
    lease_ms = lease_time(mill, step, now)
    usable = [
        (e, shard)
        for e, shard in retried
        if e.message and e.gen == step.gen and now - e.held.time < lease_ms * 0.8
    ]
    if ended:
        mill.queues.delete(ended)
    if usable:
        waits = [(e.rank, e.message, seconds_until(shard.time, now)) for e, shard in usable if e.message]
        messages.postpone(mill, step, waits, now)
    for entry, shard in retried:
        if (entry, shard) not in usable:
            delay = min(seconds_until(shard.time, now), MAX_DELAY_SECONDS)
            messages.send_if_possible(mill, step, [entry.rank], now, delay=delay)


def _mark_wrong_group(numbers: dict[int, list[_Entry]]) -> None:
    for entries in numbers.values():
        for entry in entries:
            if entry.status not in ("ok", "already"):
                entry.status = "wrong-group"


def _add_to_tally(tally: Tally, entries: Iterable[_Entry], now: int) -> None:
    for entry in entries:
        failed = entry.result.outcome != Outcome.SUCCESS.value and entry.result.reason != DISCARDED
        if failed and entry.status in ("ok", "already"):
            tally.skip.add(entry.result.task_id)
        if entry.status != "ok" or entry.shard is None:
            continue
        span = _ran_ms(entry.result, max(0, now - entry.held.time))
        if entry.result.outcome == Outcome.SUCCESS.value:
            tally.success(entry.result.task_id, span)
        elif entry.result.outcome == Outcome.REJECTED.value or entry.result.reason == DISCARDED:
            tally.done.add(entry.result.task_id)
        else:
            tally.failure(entry.result.task_id, entry.run, span)


def _answer(result: Result, entry: _Entry | None) -> Reported:
    return Reported(
        task_id=result.task_id,
        attempt=result.attempt,
        status=entry.status if entry and entry.status else "unknown-task",
        state=entry.shard.state if entry and entry.shard else None,
    )
