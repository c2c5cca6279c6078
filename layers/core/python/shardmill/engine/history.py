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
    for text in job.history:
        yield _transition(text, None)
    for run in range(1, job.run + 1):
        for step in mill.jobs.steps(job.id, run, consistent=False):
            for text in step.history:
                yield _transition(text, step.name)


def _transition(text: str, step_name: str | None) -> Transition:
    change = Change.decode(text)
    return Transition(
        time=from_ms(change.time),
        run=change.run,
        step_name=step_name,
        state=change.state,
        actor=change.actor,
        reason=change.reason,
    )
