"""Shardmill: sharded batch jobs on AWS. This is its Python SDK; what is named here is made on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shardmill.client import Client, Conflict, Invalid, NotFound, ShardmillError, WaitTimedOut
    from shardmill.model.definition import JobDefine, SavedDefine, StepDefine
    from shardmill.model.fault import Fault
    from shardmill.model.job import Attempt, Job, JobRequest, Step, Task
    from shardmill.model.states import JobState, StepState, TaskState
    from shardmill.model.worker import Worker, WorkerGroup

_CLIENT = "shardmill.client"
_HOMES = {
    "Attempt": "shardmill.model.job",
    "Client": _CLIENT,
    "Conflict": _CLIENT,
    "Fault": "shardmill.model.fault",
    "Invalid": _CLIENT,
    "Job": "shardmill.model.job",
    "JobDefine": "shardmill.model.definition",
    "JobRequest": "shardmill.model.job",
    "JobState": "shardmill.model.states",
    "NotFound": _CLIENT,
    "SavedDefine": "shardmill.model.definition",
    "ShardmillError": _CLIENT,
    "Step": "shardmill.model.job",
    "StepDefine": "shardmill.model.definition",
    "StepState": "shardmill.model.states",
    "Task": "shardmill.model.job",
    "TaskState": "shardmill.model.states",
    "WaitTimedOut": _CLIENT,
    "Worker": "shardmill.model.worker",
    "WorkerGroup": "shardmill.model.worker",
}

__all__ = [
    "Attempt",
    "Client",
    "Conflict",
    "Fault",
    "Invalid",
    "Job",
    "JobDefine",
    "JobRequest",
    "JobState",
    "NotFound",
    "SavedDefine",
    "ShardmillError",
    "Step",
    "StepDefine",
    "StepState",
    "Task",
    "TaskState",
    "WaitTimedOut",
    "Worker",
    "WorkerGroup",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
