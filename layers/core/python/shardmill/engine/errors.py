"""The engine's exceptions, one class for each problem code. `api.problems` maps them to HTTP statuses.

A message names the fault, its place, and the remedy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shardmill.model.errors import Transient


class MillError(Exception):
    """Base class of the errors that a caller can act on."""

    code = "error"

    def __init__(
        self, detail: str, *, faults: Sequence[dict[str, Any]] = (), extra: dict[str, Any] | None = None
    ) -> None:
        listed = [f"{fault['pointer'] or '/'} {fault['message']}" for fault in list(faults)[:10]]
        super().__init__(": ".join([detail, *(["; ".join(listed)] if listed else [])]))
        self.detail = detail
        self.faults = list(faults)
        self.extra = extra or {}
        self.headers: dict[str, str] = {}


class Invalid(MillError):
    """The document is not valid."""

    code = "invalid"


class DefinitionInvalid(Invalid):
    """The definition is not valid."""

    code = "invalid-definition"


class RequestInvalid(Invalid):
    """The request is not valid."""

    code = "invalid-request"


class ScheduleInvalid(Invalid):
    """The schedule is not valid. If all faults have the same code, that is the error's code."""

    code = "invalid-schedule"

    def __init__(self, detail: str, *, faults: Sequence[dict[str, Any]]) -> None:
        super().__init__(detail, faults=faults)
        codes = {fault["code"] for fault in faults}
        if len(codes) == 1:
            self.code = codes.pop()


class NotFound(MillError):
    """The resource does not exist."""

    code = "not-found"


class DefinitionNotFound(NotFound):
    code = "definition-not-found"

    def __init__(self, job_name: str, version: int | None = None) -> None:
        super().__init__(
            f"there is no definition named {job_name!r}; save it with PUT /v1/definitions/{job_name}"
            if version is None
            else f"the definition {job_name!r} has no version {version}"
        )


class JobNotFound(NotFound):
    code = "job-not-found"

    def __init__(self, job_name: str, trigger: str) -> None:
        super().__init__(f"there is no Job of {job_name!r} with the trigger {trigger!r}")


class RunNotFound(NotFound):
    code = "run-not-found"


class ScheduleNotFound(NotFound):
    code = "schedule-not-found"

    def __init__(self, job_name: str, schedule_id: str) -> None:
        super().__init__(
            f"there is no schedule {schedule_id!r} of {job_name!r}; "
            f"save it with PUT /v1/schedules/{job_name}/{schedule_id}"
        )


class BackfillNotFound(NotFound):
    code = "backfill-not-found"


class StepNotFound(NotFound):
    code = "step-not-found"


class TaskNotFound(NotFound):
    code = "task-not-found"


class GroupNotFound(NotFound):
    code = "group-not-found"


class WorkerNotFound(NotFound):
    code = "worker-not-found"


class CannotOpen(Exception):
    """A step cannot be opened, and a retry would not help: an input is missing or too large."""


class FileForbidden(MillError):
    """The task may not access the file."""

    code = "file-forbidden"


class Conflict(MillError):
    """The request conflicts with the current state of the resource."""

    code = "conflict"


class FileUnavailable(Conflict):
    """A file or secret that a task needs is not available."""

    code = "file-unavailable"


class DefinitionSuspended(Conflict):
    """The definition is suspended; no new Jobs of it start."""

    code = "definition-suspended"

    def __init__(self, job_name: str, why: str) -> None:
        super().__init__(
            f"the definition {job_name!r} was {why}; no new Jobs of it start until it is resumed"
        )


class DefinitionInUse(Conflict):
    """Other definitions depend on the definition, or schedules start it."""

    code = "definition-in-use"


class Overlap(Conflict):
    """The schedule's previous Job has not ended, and its `overlap` is `skip`."""

    code = "overlap"


class AliveInstance(Conflict):
    """The definition has `uniqueAliveInstance`, and a Job of it has not ended."""

    code = "alive-instance"


class TriggerTaken(Conflict):
    code = "trigger-taken"

    def __init__(self, job_name: str, trigger: str) -> None:
        super().__init__(
            f"a Job of {job_name!r} with the trigger {trigger!r} exists already and was requested with "
            "different content; use another trigger"
        )


class ForeignAttempt(Conflict):
    """The worker does not hold the attempt: another worker or no worker holds it."""

    code = "foreign-attempt"


class WrongGroup(Conflict):
    """The worker is not in any of the task's groups."""

    code = "wrong-group"


class ForeignTask(Conflict):
    """A worker claims to hold a task that it never leased."""

    code = "foreign-task"


class WorkerSuspended(Conflict):
    """The worker is suspended or draining and gets no tasks."""

    code = "worker-suspended"


class WorkerAlive(Conflict):
    """The worker is alive and cannot be deleted."""

    code = "worker-alive"


class GroupInUse(Conflict):
    """Jobs that have not ended use the group."""

    code = "group-in-use"


JOB_DELETED = "the Job was deleted, with all its rows, while the request ran"


class JobEnded(Conflict):
    """The Job has ended and cannot be changed."""

    code = "job-ended"


class JobNotEnded(Conflict):
    """The Job has not ended and cannot be rerun or deleted."""

    code = "job-not-ended"


class StepEnded(Conflict):
    """The step has ended and cannot be changed."""

    code = "step-ended"


class TaskEnded(Conflict):
    """The task has ended and cannot be changed."""

    code = "task-ended"


class StaleAttempt(Conflict):
    """The attempt is not the task's current one, or has ended."""

    code = "stale-attempt"


class StaleSession(Conflict):
    code = "stale-session"


class GroupFixed(Conflict):
    code = "group-fixed"


class PreconditionFailed(MillError):
    code = "precondition-failed"


class TooLarge(MillError):
    code = "definition-too-large"


class ScheduleTooLarge(TooLarge):
    """The schedule does not fit into its row together with its history."""

    code = "schedule-too-large"


class OutputTooLarge(TooLarge):
    """The output of a task is too large to pass to later steps."""

    code = "output-too-large"


class Busy(MillError, Transient):
    """The rows are being modified concurrently; retry after a second."""

    code = "busy"

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.headers = {"retry-after": "1"}


class Internal(MillError):
    code = "internal-error"


class BadRequest(MillError):
    """The request cannot be parsed."""

    code = "bad-request"


class BodyTooLarge(MillError):
    code = "body-too-large"


class UnsupportedMedia(MillError):
    code = "unsupported-media-type"


class NoSuchPath(MillError):
    code = "no-such-path"


class MethodNotAllowed(MillError):
    code = "method-not-allowed"

    def __init__(self, method: str, path: str, allowed: Sequence[str]) -> None:
        listed = ", ".join(sorted(allowed))
        super().__init__(f"{method} is not allowed on {path}; allowed: {listed}")
        self.headers = {"allow": listed}
