"""One exception a fault; a message says what is wrong, where, and what to do. `api.problems` gives each its
HTTP status."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shardmill.model.errors import Transient


class MillError(Exception):
    """Something asked of Shardmill cannot be done."""

    code = "error"

    def __init__(
        self, detail: str, *, faults: Sequence[dict[str, Any]] = (), extra: dict[str, Any] | None = None
    ) -> None:
        places = [f"{fault['pointer'] or '/'} {fault['message']}" for fault in list(faults)[:10]]
        super().__init__(": ".join([detail, *(["; ".join(places)] if places else [])]))
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
    """What is asked of a schedule is not valid; if all its faults are of one kind, that is its code."""

    code = "invalid-schedule"

    def __init__(self, detail: str, *, faults: Sequence[dict[str, Any]]) -> None:
        super().__init__(detail, faults=faults)
        kinds = {fault["code"] for fault in faults}
        if len(kinds) == 1:
            self.code = kinds.pop()


class NotFound(MillError):
    """There is no such thing."""

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
    """A step cannot have its tasks, whenever it is tried: what it needs is not there or does not fit."""


class FileForbidden(MillError):
    """A file is none of the task's business."""

    code = "file-forbidden"


class Conflict(MillError):
    """What is there does not agree with what was asked."""

    code = "conflict"


class FileUnavailable(Conflict):
    """A task cannot have a file, or a secret, that it needs."""

    code = "file-unavailable"


class DefinitionSuspended(Conflict):
    """No new Jobs of the definition start."""

    code = "definition-suspended"

    def __init__(self, job_name: str, why: str) -> None:
        super().__init__(
            f"the definition {job_name!r} was {why}; no new Jobs of it start until it is resumed"
        )


class DefinitionInUse(Conflict):
    """Other definitions depend on the definition, or schedules start it."""

    code = "definition-in-use"


class Overlap(Conflict):
    """The schedule's previous Job has not ended, and the schedule says to skip then."""

    code = "overlap"


class TriggerTaken(Conflict):
    code = "trigger-taken"

    def __init__(self, job_name: str, trigger: str) -> None:
        super().__init__(
            f"a Job of {job_name!r} with the trigger {trigger!r} exists already and was requested with other "
            "content; use another trigger"
        )


class ForeignAttempt(Conflict):
    """Another worker holds the task, or nobody does: the attempt is none of this worker's."""

    code = "foreign-attempt"


class WrongGroup(Conflict):
    """The task belongs to groups that the worker is not in."""

    code = "wrong-group"


class ForeignTask(Conflict):
    """A worker says it holds a task that it never leased."""

    code = "foreign-task"


class WorkerResting(Conflict):
    """A worker that is suspended or drained gets no tasks."""

    code = "worker-suspended"


class WorkerBusy(Conflict):
    """A worker that is alive cannot be forgotten."""

    code = "worker-alive"


class GroupInUse(Conflict):
    """Jobs that have not ended need the group."""

    code = "group-in-use"


class JobEnded(Conflict):
    """A Job that has ended cannot be changed."""

    code = "job-ended"


class JobBusy(Conflict):
    """A Job that runs cannot be run again at the same time."""

    code = "job-not-ended"


class StepEnded(Conflict):
    """A step that has ended cannot be changed."""

    code = "step-ended"


class TaskEnded(Conflict):
    """A task that has ended cannot be changed."""

    code = "task-ended"


class StaleAttempt(Conflict):
    """The attempt is not the task's present one, or another worker holds it."""

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
    """The schedule is larger than its row can hold beside its history."""

    code = "schedule-too-large"


class OutputTooLarge(TooLarge):
    """The output of a task is larger than what can be handed to later steps."""

    code = "output-too-large"


class Busy(MillError, Transient):
    """The rows are being modified concurrently; retry after a second."""

    code = "busy"

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.headers = {"retry-after": "1"}


class Internal(MillError):
    code = "internal-error"


class Unauthorized(MillError):
    code = "unauthorized"

    def __init__(self) -> None:
        super().__init__("no valid token; send the header `Authorization: Bearer <token>`")
        self.headers = {"www-authenticate": "Bearer"}


class BadRequest(MillError):
    """The request cannot be read."""

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
