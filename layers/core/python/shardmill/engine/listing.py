"""The files of a Job, as people see them: what came with it, and what its tasks made."""

from __future__ import annotations

from collections.abc import Iterator

from shardmill.engine import leavings
from shardmill.engine.mill import Mill
from shardmill.engine.sources import given_key, output_key
from shardmill.model.transfers import JobFile
from shardmill.store.rows import JobRow, StepRow

_A_STEP = 10**10
"""More than the files of any step: a place in the list is a step's index, from 1 on, and a number in it."""


def files(
    mill: Mill, job: JobRow, *, step_name: str | None, after: int | None
) -> Iterator[tuple[int, JobFile]]:
    """The files of a Job in the order of steps, tasks and names; with addresses, good for fifteen minutes."""
    first, skip = divmod(after, _A_STEP) if after is not None else (0, -1)
    if step_name is None and first == 0:
        for number, (name, known) in enumerate(sorted(job.given.items())):
            if number > skip:
                url = mill.files.get_url(mill.files.own(given_key(job.id, name)))
                yield number, JobFile(name=name, url=url, **known)
    for step in mill.jobs.steps(job.id, job.run):
        place = step.index + 1
        if step.kind != "step" or not step.total or place < first or step_name not in (None, step.name):
            continue
        for number, file in enumerate(_of_step(mill, step)):
            if place > first or number > skip:
                yield place * _A_STEP + number, file


def _of_step(mill: Mill, step: StepRow) -> Iterator[JobFile]:
    for left in leavings.of_step(mill, step):
        for known in left.kept.files:
            key = output_key(step.job_id, step.index, left, known["name"])
            yield JobFile(
                step_name=step.name,
                index=left.rank + int(step.spec.get("startShardId", 0)),
                run=left.run,
                attempt=left.attempt,
                url=mill.files.get_url(mill.files.own(key)),
                **known,
            )
