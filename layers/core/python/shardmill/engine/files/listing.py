"""The files of a Job, as people see them: what came with it, and what its tasks made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shardmill.engine.files import keys, outputs
from shardmill.engine.files.outputs import Left
from shardmill.engine.mill import Mill
from shardmill.model.files import fits
from shardmill.model.transfers import JobFile
from shardmill.store.rows import JobRow, StepRow

_A_STEP = 10**10
"""More than the files of any step: a place in the list is a step's index, from 1 on, and a number in it."""


def files(
    mill: Mill, job: JobRow, *, step_name: str | None, name: str | None, after: int | None
) -> Iterator[tuple[int, JobFile | None]]:
    """The files of a Job in the order of steps, tasks and names; with addresses, good for fifteen minutes.

    None where `name`, which may be a pattern, lets nothing through: only what is shown is signed, as a page
    far back in a long list passes by all that is before it.
    """
    first, skip = divmod(after, _A_STEP) if after is not None else (0, -1)
    if step_name is None and first == 0:
        for number, (own, known) in enumerate(sorted(job.given.items())):
            if number > skip:
                yield number, _given(mill, job, own, known) if name is None or fits(own, name) else None
    for step in mill.jobs.steps(job.id, job.run):
        place = step.index + 1
        if step.kind != "step" or not step.total or place < first or step_name not in (None, step.name):
            continue
        for number, (left, known) in enumerate(_made(mill, step)):
            if place > first or number > skip:
                shown = name is None or fits(known["name"], name)
                yield place * _A_STEP + number, _output(mill, step, left, known) if shown else None


def _given(mill: Mill, job: JobRow, name: str, known: dict[str, Any]) -> JobFile:
    url = mill.files.get_url(mill.files.own(keys.submitted_file(job.id, name)))
    return JobFile(name=name, url=url, **known)


def _made(mill: Mill, step: StepRow) -> Iterator[tuple[Left, dict[str, Any]]]:
    for left in outputs.of_step(mill, step):
        for known in left.kept.files:
            yield left, known


def _output(mill: Mill, step: StepRow, left: Left, known: dict[str, Any]) -> JobFile:
    key = keys.output(step.job_id, left.run, step.index, left.rank, left.attempt, known["name"])
    return JobFile(
        step_name=step.name,
        index=left.rank + step.settings.start_shard_id,
        run=left.run,
        attempt=left.attempt,
        url=mill.files.get_url(mill.files.own(key)),
        **known,
    )
