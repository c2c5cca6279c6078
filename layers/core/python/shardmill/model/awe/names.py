"""The names of the AWE protocol and of the engine: tasks and steps, groups, definitions, ids and nodes."""

from __future__ import annotations

import base64
import binascii
import re
from typing import NamedTuple

MAX_NAME = 64
ANY_GROUP = "default"
"""The group of jobs without `clientgroups`; every AWE client serves it."""

MAX_TASK_ID = 1_000
_MAX_ADDRESS_BYTES = 150
_NAME = re.compile(r"[_a-zA-Z][_a-zA-Z0-9-]*\Z")
_NOT_IN_NAMES = re.compile(r"[^_a-zA-Z0-9-]")
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_WORK_ID = re.compile(rf"({_UUID})_([^/]{{1,150}})_(\d{{1,7}})\Z", re.ASCII)
_JOB_NODE = re.compile(rf"({_UUID})_(\d{{1,4}})_(\d{{1,4}})\Z", re.ASCII)
_JOB_PREFIX = re.compile(_UUID + "_")
_UUID_ONLY = re.compile(_UUID + r"\Z")
_IN_ADDRESS = re.compile(r"[^\s\x00-\x1f\x7f/?#%,]{1,150}\Z")
_NUMBERED_STEP = re.compile(r"task_(\d{1,7})\Z", re.ASCII)


class WorkId(NamedTuple):
    """A workunit: `task` is the AWE name of its task, `rank` 0 if it is alone and 1…N otherwise."""

    job_id: str
    task: str
    rank: int

    @property
    def engine_rank(self) -> int:
        return max(0, self.rank - 1)


class JobNode(NamedTuple):
    """The node of an output of a job: the index of its step, and of the file among the step's outputs."""

    job_id: str
    step: int
    output: int

    def __str__(self) -> str:
        return f"{self.job_id}_{self.step}_{self.output}"


def without_job_id(task_id: str) -> str:
    """The name of a task in its document, for an id such as `{job id}_0`."""
    return _JOB_PREFIX.sub("", task_id, count=1) if _JOB_PREFIX.match(task_id) else task_id


def is_uuid(text: str) -> bool:
    return _UUID_ONLY.match(text) is not None


def plain_name(text: str) -> str:
    """Convert any text to a valid name of the engine; invalid characters become `-`."""
    name = _NOT_IN_NAMES.sub("-", text.strip())
    name = name if _NAME.match(name) else f"_{name}"
    return name[:MAX_NAME]


def step_name(task_id: str) -> str:
    """The name of the step of an AWE task: `task_0` for the task `0`."""
    return f"task_{task_id}"[:MAX_NAME] if task_id.isdecimal() else plain_name(task_id)


def task_name(step: str) -> str:
    """The AWE name of a step's task: `0` for the step `task_0`."""
    found = _NUMBERED_STEP.match(step)
    return found[1] if found else step


def address_name(task_id: str, step: str) -> str:
    """The name of a task in the ids of its workunits, which are parts of addresses and of lists with commas.

    It is the id in the document, or the name of the step if an address or the name of a file cannot have it.
    """
    usable = _IN_ADDRESS.match(task_id) and len(task_id.encode()) <= _MAX_ADDRESS_BYTES
    return task_id if usable else task_name(step)


def decode_id(text: str) -> str:
    """An id of a path, which newer clients send as `base64:…`."""
    kind, _, encoded = text.partition(":")
    if kind != "base64" or not encoded:
        return text
    try:
        padded = encoded + "=" * (-len(encoded) % 4)
        return base64.b64decode(padded.replace("-", "+").replace("_", "/"), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return text


def parse_work_id(text: str) -> WorkId | None:
    found = _WORK_ID.match(text)
    return WorkId(found[1], found[2], int(found[3])) if found else None


def work_id(job_id: str, task: str, rank: int, total: int) -> str:
    """The id of a workunit: `{job id}_{task}_{rank}`, where splits count from 1."""
    return f"{job_id}_{task}_{rank + 1 if total > 1 else 0}"


def parse_job_node(text: str) -> JobNode | None:
    found = _JOB_NODE.match(text)
    return JobNode(found[1], int(found[2]), int(found[3])) if found else None
