"""List the files of a Job: files submitted with it, and outputs of its tasks."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import Any

from shardmill.engine.files import keys, outputs
from shardmill.engine.files.outputs import AttemptOutput
from shardmill.engine.mill import Mill
from shardmill.model.files import fits
from shardmill.model.transfers import JobFile
from shardmill.store.rows import JobRow, StepRow

_STEP_STRIDE = 10**10
"""Exceeds the files of any step. A position is `(step index + 1) * stride + number of the file`."""


def files(
    mill: Mill, job: JobRow, *, step_name: str | None, name: str | None, after: int | None
) -> Iterator[tuple[int, JobFile | None]]:
    """Yield `(position, file)` in the order of steps, tasks and names, with presigned URLs.

    Yields None for a file that does not match `name`, which may be a pattern, so that only listed files are
    signed and a page deep in a long list stays cheap.
    """
    first, skip = divmod(after, _STEP_STRIDE) if after is not None else (0, -1)
    if step_name is None and first == 0:
        for number, file in enumerate(sorted(job.request.get("files", []), key=itemgetter("name"))):
            if number > skip:
                matches = name is None or fits(file["name"], name)
                yield number, _submitted(mill, job, file) if matches else None
    for step in mill.jobs.steps(job.id, job.run):
        place = step.index + 1
        if step.kind != "step" or not step.total or place < first or step_name not in (None, step.name):
            continue
        for number, (output, known) in enumerate(_output_files(mill, step)):
            if place > first or number > skip:
                matches = name is None or fits(known["name"], name)
                yield place * _STEP_STRIDE + number, _output(mill, step, output, known) if matches else None


def _submitted(mill: Mill, job: JobRow, file: dict[str, Any]) -> JobFile:
    name = file["name"]
    key = keys.upload(file["upload"]) if job.files_pending else keys.submitted_file(job.id, name)
    return JobFile(name=name, url=mill.files.get_url(mill.files.own(key)), **job.submitted_files[name])


def _output_files(mill: Mill, step: StepRow) -> Iterator[tuple[AttemptOutput, dict[str, Any]]]:
    for output in outputs.of_step(mill, step):
        for known in output.stored.files:
            yield output, known


def _output(mill: Mill, step: StepRow, output: AttemptOutput, known: dict[str, Any]) -> JobFile:
    key = keys.output(step.job_id, output.run, step.index, output.rank, output.attempt, known["name"])
    return JobFile(
        step_name=step.name,
        index=output.rank + step.settings.start_shard_id,
        run=output.run,
        attempt=output.attempt,
        url=mill.files.get_url(mill.files.own(key)),
        **known,
    )
