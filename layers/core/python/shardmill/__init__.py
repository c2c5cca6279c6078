"""Shardmill: sharded batch jobs on AWS. The names of the Python SDK, each imported on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shardmill.client import Client, Conflict, Invalid, NotFound, ShardmillError, Submitted, WaitTimedOut
    from shardmill.model.definition.fields import JobDefine, JobGraph, ListedDefine, SavedDefine, StepDefine
    from shardmill.model.fault import Fault
    from shardmill.model.job import (
        Attempt,
        DependencyStatus,
        Explanation,
        Job,
        JobRequest,
        Step,
        Task,
        Transition,
    )
    from shardmill.model.states import JobState, StepState, TaskState
    from shardmill.model.time.schedule import Backfill, Firing, SavedSchedule, Schedule, When
    from shardmill.model.transfers import JobFile, Upload
    from shardmill.model.worker import Worker, WorkerGroup

_CLIENT = "shardmill.client"
_HOMES = {
    "Attempt": "shardmill.model.job",
    "Backfill": "shardmill.model.time.schedule",
    "Client": _CLIENT,
    "Conflict": _CLIENT,
    "DependencyStatus": "shardmill.model.job",
    "Explanation": "shardmill.model.job",
    "Fault": "shardmill.model.fault",
    "Firing": "shardmill.model.time.schedule",
    "Invalid": _CLIENT,
    "Job": "shardmill.model.job",
    "JobDefine": "shardmill.model.definition.fields",
    "JobFile": "shardmill.model.transfers",
    "JobGraph": "shardmill.model.definition.fields",
    "JobRequest": "shardmill.model.job",
    "JobState": "shardmill.model.states",
    "ListedDefine": "shardmill.model.definition.fields",
    "NotFound": _CLIENT,
    "SavedDefine": "shardmill.model.definition.fields",
    "SavedSchedule": "shardmill.model.time.schedule",
    "Schedule": "shardmill.model.time.schedule",
    "ShardmillError": _CLIENT,
    "Step": "shardmill.model.job",
    "StepDefine": "shardmill.model.definition.fields",
    "StepState": "shardmill.model.states",
    "Submitted": _CLIENT,
    "Task": "shardmill.model.job",
    "TaskState": "shardmill.model.states",
    "Transition": "shardmill.model.job",
    "Upload": "shardmill.model.transfers",
    "WaitTimedOut": _CLIENT,
    "When": "shardmill.model.time.schedule",
    "Worker": "shardmill.model.worker",
    "WorkerGroup": "shardmill.model.worker",
}

__all__ = [
    "Attempt",
    "Backfill",
    "Client",
    "Conflict",
    "DependencyStatus",
    "Explanation",
    "Fault",
    "Firing",
    "Invalid",
    "Job",
    "JobDefine",
    "JobFile",
    "JobGraph",
    "JobRequest",
    "JobState",
    "ListedDefine",
    "NotFound",
    "SavedDefine",
    "SavedSchedule",
    "Schedule",
    "ShardmillError",
    "Step",
    "StepDefine",
    "StepState",
    "Submitted",
    "Task",
    "TaskState",
    "Transition",
    "Upload",
    "WaitTimedOut",
    "When",
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
