"""Shardmill: sharded batch jobs on AWS. The names of the Python SDK, each imported on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shardmill.client.calls import Submitted
    from shardmill.client.client import Client
    from shardmill.client.errors import (
        BadAnswer,
        BadFile,
        BadName,
        Conflict,
        Forbidden,
        Invalid,
        NotConnected,
        NotFound,
        PreconditionFailed,
        ServerError,
        ShardmillError,
        Throttled,
        TransferFailed,
        Unauthorized,
        Unreachable,
        WaitTimedOut,
    )
    from shardmill.model.access.token import IssuedToken, Token
    from shardmill.model.access.usage import ApplicationLimits, Limit
    from shardmill.model.batch import BatchedJob, BatchItem
    from shardmill.model.control.effect import DryRunItem, Effect
    from shardmill.model.cost.prices import Cost, CostItem
    from shardmill.model.definition.answers import JobGraph, ListedDefine, SavedDefine
    from shardmill.model.definition.fields import JobDefine, StepDefine
    from shardmill.model.fault import Fault
    from shardmill.model.groups.group import WorkerGroup
    from shardmill.model.job import Attempt, DependencyStatus, Explanation, Job, Step, Task, Transition
    from shardmill.model.operations.dead_letter import DeadLetter, DeadLetterContent
    from shardmill.model.request import JobRequest
    from shardmill.model.states import JobState, StepState, TaskState
    from shardmill.model.time.backfill import Backfill
    from shardmill.model.time.schedule import Firing, SavedSchedule, Schedule, UpcomingTimes, When
    from shardmill.model.transfers import JobFile, Upload
    from shardmill.model.worker import Worker

_ERRORS = "shardmill.client.errors"
_HOMES = {
    "ApplicationLimits": "shardmill.model.access.usage",
    "Attempt": "shardmill.model.job",
    "Backfill": "shardmill.model.time.backfill",
    "BadAnswer": _ERRORS,
    "BadFile": _ERRORS,
    "BadName": _ERRORS,
    "BatchItem": "shardmill.model.batch",
    "ActionRequests": "shardmill.client.control",
    "DryRunItem": "shardmill.model.control.effect",
    "Effect": "shardmill.model.control.effect",
    "BatchedJob": "shardmill.model.batch",
    "Client": "shardmill.client.client",
    "Conflict": _ERRORS,
    "Cost": "shardmill.model.cost.prices",
    "CostItem": "shardmill.model.cost.prices",
    "DeadLetter": "shardmill.model.operations.dead_letter",
    "DeadLetterContent": "shardmill.model.operations.dead_letter",
    "DependencyStatus": "shardmill.model.job",
    "Explanation": "shardmill.model.job",
    "Fault": "shardmill.model.fault",
    "Firing": "shardmill.model.time.schedule",
    "Forbidden": _ERRORS,
    "Invalid": _ERRORS,
    "IssuedToken": "shardmill.model.access.token",
    "Job": "shardmill.model.job",
    "JobDefine": "shardmill.model.definition.fields",
    "JobFile": "shardmill.model.transfers",
    "JobGraph": "shardmill.model.definition.answers",
    "JobRequest": "shardmill.model.request",
    "JobState": "shardmill.model.states",
    "Limit": "shardmill.model.access.usage",
    "ListedDefine": "shardmill.model.definition.answers",
    "NotConnected": _ERRORS,
    "NotFound": _ERRORS,
    "PreconditionFailed": _ERRORS,
    "SavedDefine": "shardmill.model.definition.answers",
    "SavedSchedule": "shardmill.model.time.schedule",
    "Schedule": "shardmill.model.time.schedule",
    "ServerError": _ERRORS,
    "ShardmillError": _ERRORS,
    "Step": "shardmill.model.job",
    "StepDefine": "shardmill.model.definition.fields",
    "StepState": "shardmill.model.states",
    "Submitted": "shardmill.client.calls",
    "Task": "shardmill.model.job",
    "TaskState": "shardmill.model.states",
    "Throttled": _ERRORS,
    "Token": "shardmill.model.access.token",
    "TransferFailed": _ERRORS,
    "Transition": "shardmill.model.job",
    "Unauthorized": _ERRORS,
    "Unreachable": _ERRORS,
    "UpcomingTimes": "shardmill.model.time.schedule",
    "Upload": "shardmill.model.transfers",
    "WaitTimedOut": _ERRORS,
    "When": "shardmill.model.time.schedule",
    "Worker": "shardmill.model.worker",
    "WorkerGroup": "shardmill.model.groups.group",
}

__all__ = [
    "ActionRequests",
    "ApplicationLimits",
    "Attempt",
    "Backfill",
    "BadAnswer",
    "BadFile",
    "BadName",
    "BatchItem",
    "BatchedJob",
    "Client",
    "Conflict",
    "Cost",
    "CostItem",
    "DeadLetter",
    "DeadLetterContent",
    "DependencyStatus",
    "DryRunItem",
    "Effect",
    "Explanation",
    "Fault",
    "Firing",
    "Forbidden",
    "Invalid",
    "IssuedToken",
    "Job",
    "JobDefine",
    "JobFile",
    "JobGraph",
    "JobRequest",
    "JobState",
    "Limit",
    "ListedDefine",
    "NotConnected",
    "NotFound",
    "PreconditionFailed",
    "SavedDefine",
    "SavedSchedule",
    "Schedule",
    "ServerError",
    "ShardmillError",
    "Step",
    "StepDefine",
    "StepState",
    "Submitted",
    "Task",
    "TaskState",
    "Throttled",
    "Token",
    "TransferFailed",
    "Transition",
    "Unauthorized",
    "Unreachable",
    "UpcomingTimes",
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
