"""Texts of the engine in the words of the AWE protocol: jobs, tasks and workunits with their ids."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from shardmill.engine.awe.task_names import task_id, unit_id
from shardmill.engine.errors import Busy, Conflict, JobEnded, JobNotEnded, StepEnded
from shardmill.engine.mill import Mill
from shardmill.model.awe import states
from shardmill.store.rows import JobRow, StepRow

_NAME = r"[_a-zA-Z][_a-zA-Z0-9-]*"
_STEP = re.compile(rf"(^|; )step ({_NAME})(?=: )")
_FAILED = re.compile(
    r"(?:(?<=^)|(?<=: )|(?<=; ))(\d+ of \d+) tasks failed(, \d+ were stopped)?"
    rf"(?:; the first was task (\d+) of step ({_NAME}))?"
)
_PHRASES = {
    re.compile(r"stopped by failFast after (\d+) failed tasks"): r"stopped after \1 failed workunits",
    re.compile(r"^the step failed: "): "the task failed: ",
    re.compile(r"^the Job ended"): "the job ended",
}
_ABOUT_STATE = (JobEnded, JobNotEnded, StepEnded)


def notes_text(notes: str | None, steps: Sequence[StepRow]) -> str | None:
    """The notes of a job or a task. The reasons that workers reported in them stay as they are."""
    if not notes:
        return notes
    by_name = {step.name: step for step in steps}
    for phrase, words in _PHRASES.items():
        notes = phrase.sub(words, notes)
    notes = _FAILED.sub(lambda found: _failed(found, by_name), notes)
    return _STEP.sub(lambda found: f"{found[1]}{_task(found[2], by_name)}", notes)


def _failed(found: re.Match[str], steps: Mapping[str, StepRow]) -> str:
    counted = f"{found[1]} workunits failed{found[2] or ''}"
    if not found[3]:
        return counted
    step = steps.get(found[4])
    if not step:
        return f"{counted}; the first was {found[3]} of task {found[4]}"
    return f"{counted}; the first was workunit {unit_id(step, int(found[3]) - step.settings.start_shard_id)}"


def _task(name: str, steps: Mapping[str, StepRow]) -> str:
    return f"task {task_id(steps[name])}" if name in steps else f"task {name}"


@contextmanager
def job_errors(mill: Mill, job: JobRow, done: str, advice: str = "") -> Iterator[None]:
    """Report that a job cannot be changed in its state by its id and the word for the state.

    `done`: what would have been done with it, such as `resumed`; `advice`: what to do instead.
    """
    try:
        yield
    except Busy:
        raise Busy(f"job {job.id} is being modified concurrently; retry") from None
    except Conflict as error:
        if type(error) is not Conflict and not isinstance(error, _ABOUT_STATE):
            raise
        present = mill.jobs.get(job.id) or job
        text = f"job {job.id} cannot be {done}, its state is {states.JOB[present.state]}"
        raise type(error)(f"{text}; {advice}" if advice else text) from None
