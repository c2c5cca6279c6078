"""Tasks that no live worker of their group can run: noted, and sent to the first worker that can."""

from __future__ import annotations

from collections.abc import Sequence

from shardmill.engine.groups.matching import can_run, group_rows, live_workers, required_program
from shardmill.engine.mill import Mill
from shardmill.engine.tasks import messages
from shardmill.store.groups import Unmatched
from shardmill.store.rows import StepRow, WorkerRow


def note_if_stuck(mill: Mill, step: StepRow, ranks: Sequence[int], now: int) -> None:
    """Note tasks that no live worker can run, so that the first that can gets them at once.

    It is noted before the last look, and a worker joins before it looks for notes: one sees the other.
    """
    need = required_program(step)
    if _anyone(mill, step, need, now):
        return
    names = list(group_rows(mill, step.groups, now))
    for name in names:
        mill.groups.note_unmatched(name, step, ranks, need, now=now)
    if _anyone(mill, step, need, now, fresh=True):
        for name in names:
            _send(mill, Unmatched(name, (step.job_id, step.run, step.index), need, set(ranks)), now)


def _anyone(mill: Mill, step: StepRow, need: str, now: int, *, fresh: bool = False) -> bool:
    return any(can_run(worker.apps, need) for worker in live_workers(mill, step.groups, now, fresh=fresh))


def wake_stuck(mill: Mill, worker: WorkerRow, now: int) -> None:
    """Send again what nobody but this worker can run; the older messages of it come back too."""
    for group in worker.groups:
        for noted in list(mill.groups.unmatched(group)):
            if can_run(worker.apps, noted.need):
                _send(mill, noted, now)


def _send(mill: Mill, noted: Unmatched, now: int) -> None:
    step = mill.jobs.step(*noted.step)
    if step and step.opened and not step.stopping:
        messages.send_if_possible(mill, step, sorted(noted.ranks), now)
    mill.groups.clear_unmatched(noted)
