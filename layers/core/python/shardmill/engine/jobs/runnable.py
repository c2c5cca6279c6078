"""Check that a new Job can run: its groups, files, templates and sizes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from pydantic import ValidationError

from shardmill.engine.errors import RequestInvalid
from shardmill.engine.groups.matching import group_rows
from shardmill.engine.mill import Mill
from shardmill.engine.tasks.work_item import check_renders, describe_error
from shardmill.model.definition.fields import StepDefine
from shardmill.model.fault import Fault, Path, fault
from shardmill.model.templates.render import TemplateError
from shardmill.store.rows import JobRow

MAX_ROW_BYTES = 220_000  # of 400 KB; the rest is for changes, reruns and the history
MAX_STEP_BYTES = 300_000
MAX_JOB_BYTES = 4_000_000


def invalid_request(faults: Sequence[Fault]) -> RequestInvalid:
    return RequestInvalid("the JobRequest is not valid", faults=[each.model_dump() for each in faults])


def check_runnable(mill: Mill, job: JobRow, specs: Sequence[StepDefine], now: int) -> None:
    """Raise RequestInvalid with everything that would keep the Job from running.

    `specs`: the steps that run, with their effective settings.
    """
    faults: list[Fault] = []
    missing = job.groups - set(group_rows(mill, job.groups, now))
    for name in sorted(missing):
        step = next(spec.step_name for spec in specs if name in spec.worker_groups)
        text = f"step {step!r} needs the worker group {name!r}; create it with PUT /v1/groups/{name}"
        faults.append(fault(_place_of_group(job, step, name), "unknown-group", text))
    faults += _file_faults(specs, job)
    whole, given = 0, len(json.dumps(job.request.get("files", [])))
    for spec in specs:
        try:
            check_renders(spec, job)
        except (TemplateError, ValidationError) as error:
            faults.append(
                fault(("params",), "bad-template", f"step {spec.step_name}: {describe_error(error)}")
            )
        size = len(spec.model_dump_json().encode())
        whole += size
        if size + given > MAX_STEP_BYTES:
            text = (
                f"step {spec.step_name} has {size + given} bytes with its parameters and the list of files; "
                f"the maximum is {MAX_STEP_BYTES}"
            )
            faults.append(fault((), "step-too-large", text))
    if whole > MAX_JOB_BYTES:
        text = f"the steps have {whole} bytes with their parameters; the maximum is {MAX_JOB_BYTES}"
        faults.append(fault(("params",), "job-too-large", text))
    if job.stored_bytes > MAX_ROW_BYTES:
        text = f"the request and its parameters have {job.stored_bytes} bytes; the maximum is {MAX_ROW_BYTES}"
        faults.append(fault(("params",), "job-too-large", text))
    if faults:
        raise invalid_request(faults)


def _place_of_group(job: JobRow, step_name: str, group: str) -> Path:
    """Return where a group is named: in the request, else in the definition."""
    for at, override in enumerate(job.request.get("steps", [])):
        if override["stepName"] == step_name and group in override.get("workerGroups", ()):
            return ("steps", at)
    return ("jobName",)


def _file_faults(specs: Sequence[StepDefine], job: JobRow) -> Iterator[Fault]:
    """Yield a fault for each input that is missing from the request, and each file that no step reads."""
    read = [(step, file) for step in specs for file in (*step.inputs, *step.predata)]
    given = [each["name"] for each in job.request.get("files", [])]
    known = {file.name for _, file in read if not file.origin}
    for step, file in read:
        sourced = file.url or file.s3 or file.origin or file.optional or "{{" in file.name
        if not sourced and file.name not in given:
            text = f"step {step.step_name!r} reads a file {file.name!r} that must come with the Job"
            yield fault(("files",), "missing-file", text)
    for at, name in enumerate(given):
        if name not in known and not any("{{" in each for each in known):
            yield fault(("files", at, "name"), "unknown-file", f"no step reads a file {name[:64]!r}")
        elif name in given[:at]:
            yield fault(("files", at, "name"), "duplicate-file", "duplicate file name")
