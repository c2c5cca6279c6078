"""The result of a workunit: its outcome, logs and the files that its client uploaded."""

from __future__ import annotations

from collections.abc import Mapping

from shardmill.engine.awe.errors import WorkNotFound
from shardmill.engine.awe.lookup import Work, find_work, own_client
from shardmill.engine.errors import BadRequest, StaleAttempt
from shardmill.engine.files import keys
from shardmill.engine.files.held_attempt import HeldAttempt
from shardmill.engine.groups.totals import FAILURES_IN_A_ROW, record_totals
from shardmill.engine.mill import Mill
from shardmill.engine.nodes.work_outputs import work_outputs
from shardmill.engine.task_id import task_id
from shardmill.engine.tasks.attempts import list_attempts
from shardmill.engine.tasks.report import report
from shardmill.engine.tasks.retry import Outcome
from shardmill.model.actor import Actor
from shardmill.model.awe import states
from shardmill.model.awe.names import parse_work_id
from shardmill.model.blocks import Shard, block_of
from shardmill.model.states import TaskState
from shardmill.model.worker import Result
from shardmill.store.rows import WorkerRow
from shardmill.store.workers import Tally

OUTCOMES = {
    "done": Outcome.SUCCESS,
    "fail": Outcome.FAILED,
    "failed-permanent": Outcome.FAILED_PERMANENT,
}
LOGS = ("perf", "stdout", "stderr", "worknotes")
DISCARDED = "discarded"
"""The answer to a report that does not count. It is not an error: after an error, newer clients repeat the
report every minute, forever, and take no other work."""
LATE_MS = 60_000
"""A report that claims this much more time than passed since its checkout belongs to an earlier attempt."""
MAX_REASON = 1_000
_MAX_LOG_BYTES = 5_000_000


def held_shard(mill: Mill, work: Work) -> Shard:
    return mill.shards.blocks(work.step, [block_of(work.rank)])[block_of(work.rank)][work.rank]


def held_attempt(mill: Mill, work: Work, worker: WorkerRow) -> HeldAttempt:
    """The attempt at a workunit that a client holds. Raises StaleAttempt unless it does."""
    shard = held_shard(mill, work)
    if shard.worker_id != worker.id or shard.state is not TaskState.RUNNING:
        raise StaleAttempt("the client does not hold the workunit: it was discarded, or has ended")
    return HeldAttempt(work.step, work.rank, shard.attempt)


def report_work(
    mill: Mill,
    work_id: str,
    client_id: str,
    actor: Actor,
    status: str,
    *,
    compute_seconds: int | None,
    logs: Mapping[str, bytes],
    now: int,
) -> str:
    """Record the result of a workunit; returns the word for its state, or DISCARDED.

    A repeated report of the same outcome is accepted, because clients repeat reports whose answer was lost.
    """
    if status not in OUTCOMES:
        raise BadRequest(f"status must be one of {', '.join(OUTCOMES)}, not {status[:64]!r}")
    if not parse_work_id(work_id):
        raise WorkNotFound(work_id)
    worker = own_client(mill, client_id, actor, now)
    try:
        work = find_work(mill, work_id)
    except WorkNotFound:
        return DISCARDED  # of a job that was deleted meanwhile
    shard = held_shard(mill, work)
    if _is_late(mill, work, worker, shard, compute_seconds, now):
        return DISCARDED
    result = _result(mill, work, worker, shard, OUTCOMES[status], logs, compute_seconds)
    tally = Tally()
    [reported] = report(mill, worker.id, [result], now, groups=worker.groups, tally=tally, trusted=False)
    if tally.done or tally.skip:
        _suspend_after_failures(mill, record_totals(mill, worker.id, tally, now))
    if reported.status not in ("ok", "already") or not reported.state:
        return DISCARDED
    return states.WORK[reported.state]


def _result(
    mill: Mill,
    work: Work,
    worker: WorkerRow,
    shard: Shard,
    outcome: Outcome,
    logs: Mapping[str, bytes],
    compute_seconds: int | None,
) -> Result:
    """The result of an attempt; its logs are stored, and its outputs looked up, if the client holds it."""
    reason = _text(logs.get("worknotes", b""))[-MAX_REASON:]
    files = None
    if shard.worker_id == worker.id and shard.state is TaskState.RUNNING:
        held = HeldAttempt(work.step, work.rank, shard.attempt)
        _store_logs(mill, held, logs)
        if outcome is Outcome.SUCCESS:
            found = work_outputs(mill, held)
            files = list(found.stored)
            if found.faults:
                outcome, reason = Outcome.FAILED, "; ".join(found.faults)[:MAX_REASON]
    identity = task_id(work.step, work.rank)
    return Result(
        task_id=identity,
        attempt=shard.attempt,
        outcome=outcome.value,
        receipt=worker.receipts.get(identity),
        reason=reason or None,
        stdout=_text(logs.get("stdout", b"")) or None,
        stderr=_text(logs.get("stderr", b"")) or None,
        files=files,
        compute_seconds=compute_seconds,
    )


def _is_late(
    mill: Mill, work: Work, worker: WorkerRow, shard: Shard, compute_seconds: int | None, now: int
) -> bool:
    """Whether a report is of an earlier attempt of the same client: its computing time exceeds the time since
    the checkout.

    Reports name no attempt. Only a client that had the unit before can send such a report.
    """
    elapsed = now - shard.time
    if shard.attempt < 2 or shard.state is not TaskState.RUNNING or shard.worker_id != worker.id:
        return False
    if (compute_seconds or 0) * 1000 <= elapsed + LATE_MS:
        return False
    earlier = list_attempts(mill, work.step, work.rank)
    return any(each.get("worker") == worker.id and each["attempt"] < shard.attempt for each in earlier)


def _suspend_after_failures(mill: Mill, worker: WorkerRow | None) -> None:
    """Suspend a client after five failures in a row, of any kind."""
    if worker and worker.failures >= FAILURES_IN_A_ROW and not worker.tired:
        why = f"suspended after {worker.failures} failures in a row"
        mill.workers.suspend_after_failures(worker.id, why)


def _store_logs(mill: Mill, held: HeldAttempt, logs: Mapping[str, bytes]) -> None:
    """Store the logs of an attempt, as other workers do, so that every view of the log finds them."""
    for stream in LOGS:
        content = logs.get(stream, b"")[:_MAX_LOG_BYTES]
        if content:
            mill.files.write(keys.log_chunk(held.log_prefix(stream), 0), content)


def _text(content: bytes) -> str:
    return content.decode(errors="replace").replace("\0", "")
