"""What happened to a Job and its steps, put together from their rows."""

from __future__ import annotations

from collections.abc import Iterator

from shardmill.engine.mill import Mill
from shardmill.model.base import from_ms
from shardmill.model.history import Change
from shardmill.model.job import Transition
from shardmill.model.states import JobState
from shardmill.store.rows import JobRow


def history(mill: Mill, job: JobRow) -> list[Transition]:
    """Every transition of every run, in order; of one moment, a Job's end comes after those of its steps."""
    return sorted(_transitions(mill, job), key=lambda each: (each.time, _turn(each)))


def _turn(each: Transition) -> int:
    if each.step_name is not None:
        return 1
    return 2 if JobState(each.state).ended else 0


def _transitions(mill: Mill, job: JobRow) -> Iterator[Transition]:
    yield from _of_row(job.history, None)
    for run in range(1, job.run + 1):
        for step in mill.jobs.steps(job.id, run, consistent=False):
            yield from _of_row(step.history, step.name)


def _of_row(history: list[str], step_name: str | None) -> Iterator[Transition]:
    """As they were written: of two who act at once, the later writer may have looked at the clock first."""
    latest = 0
    for change in map(Change.decode, history):
        latest = max(latest, change.time)
        yield Transition(
            time=from_ms(latest),
            run=change.run,
            step_name=step_name,
            state=change.state,
            actor=change.actor,
            reason=change.reason,
        )
