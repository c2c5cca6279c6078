"""Unmatched tasks, which no live worker of their group can run: note them for the first worker that can."""

from __future__ import annotations

from collections.abc import Sequence

from shardmill.engine.groups.matching import can_run, group_rows, live_workers, required_program
from shardmill.engine.mill import Mill
from shardmill.engine.tasks import messages
from shardmill.store.groups import Unmatched
from shardmill.store.rows import StepRow, WorkerRow


def note_unmatched(mill: Mill, step: StepRow, ranks: Sequence[int], now: int) -> None:
    """Note tasks that no live worker can run, so that the first worker that can gets them at once.

    The note is written before the workers are read again, and a worker registers before it reads the notes,
    so at least one of the two sees the other.
    """
    need = required_program(step)
    if _any_can_run(mill, step, need, now):
        return
    names = list(group_rows(mill, step.groups, now))
    for name in names:
        mill.groups.note_unmatched(name, step, ranks, need, now=now)
    if _any_can_run(mill, step, need, now, fresh=True):
        for name in names:
            _send(mill, Unmatched(name, (step.job_id, step.run, step.index), need, set(ranks)), now)


def _any_can_run(mill: Mill, step: StepRow, need: str, now: int, *, fresh: bool = False) -> bool:
    return any(True for _ in live_workers(mill, step.groups, now, need=need, fresh=fresh))


def send_unmatched(mill: Mill, worker: WorkerRow, now: int) -> None:
    """Send the unmatched tasks that a worker can run. Their older messages also reappear later."""
    for group in worker.groups:
        for noted in list(mill.groups.unmatched(group)):
            if can_run(worker.apps, noted.need):
                _send(mill, noted, now)


def _send(mill: Mill, noted: Unmatched, now: int) -> None:
    step = mill.jobs.step(*noted.step)
    if step and step.opened and not step.stopping:
        messages.send_if_possible(mill, step, sorted(noted.ranks), now)
    mill.groups.clear_unmatched(noted)
