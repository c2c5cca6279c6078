"""The exceptions of the client; each problem response of the API becomes one of them.

ShardmillError
├── NotConnected        no URL or token is set
├── Unreachable         no response
├── BadAnswer           the response does not come from Shardmill
├── Unauthorized        401
├── Forbidden           403
├── NotFound            404
├── Conflict            409
├── PreconditionFailed  412
├── Invalid             400, 413, 415, 422, with the faults of the request
│   ├── BadName         an invalid name; the request was not sent
│   └── BadFile         a local file that cannot be uploaded or written
├── TransferFailed      an upload or download failed
├── Throttled           429
├── ServerError         5xx
└── WaitTimedOut        the Job or backfill did not end in time; it continues
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from shardmill.model.fault import Fault

if TYPE_CHECKING:
    from shardmill.model.job import Job
    from shardmill.model.time.backfill import Backfill


SHOWN_FAULTS = 10


class ShardmillError(Exception):
    """A request failed. `status` is the HTTP status, 0 if there was no response."""

    code = "error"

    def __init__(
        self, detail: str, *, code: str | None = None, status: int = 0, faults: Sequence[Fault] = ()
    ) -> None:
        super().__init__(_with_faults(detail, faults))
        self.detail = detail
        self.code = code or type(self).code
        self.status = status
        self.faults = list(faults)


def _with_faults(detail: str, faults: Sequence[Fault]) -> str:
    """The message with a line for each of the first faults, so that a traceback shows what to fix."""
    lines = [f"  {fault.pointer or '(document)'}: {fault.message}" for fault in faults[:SHOWN_FAULTS]]
    left = len(faults) - len(lines)
    return "\n".join([detail, *lines, *([f"  and {left} more"] if left else [])])


class NotConnected(ShardmillError):
    code = "not-connected"


class Unreachable(ShardmillError):
    code = "unreachable"


class BadAnswer(ShardmillError):
    code = "bad-answer"


class Unauthorized(ShardmillError):
    code = "unauthorized"


class Forbidden(ShardmillError):
    code = "forbidden"


class NotFound(ShardmillError):
    code = "not-found"


class Conflict(ShardmillError):
    code = "conflict"


class PreconditionFailed(ShardmillError):
    code = "precondition-failed"


class Invalid(ShardmillError):
    code = "invalid"


class BadName(Invalid):
    code = "bad-name"


class BadFile(Invalid):
    code = "bad-file"


class TransferFailed(ShardmillError):
    code = "transfer-failed"


class Throttled(ShardmillError):
    code = "throttled"


class ServerError(ShardmillError):
    code = "server-error"


class WaitTimedOut(ShardmillError):
    """`job` or `backfill` is its last known state."""

    code = "wait-timed-out"

    def __init__(self, detail: str, *, job: Job | None = None, backfill: Backfill | None = None) -> None:
        super().__init__(detail)
        self.job = job
        self.backfill = backfill


_BY_STATUS: dict[int, type[ShardmillError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    412: PreconditionFailed,
    413: Invalid,
    415: Invalid,
    422: Invalid,
    429: Throttled,
}
# API Gateway returns these by itself, not as problem+json.
_GATEWAY = {401, 403, 413, 429}


def problem_error(status: int, body: Any, request: str) -> ShardmillError:
    """The exception for an error response; `request` is its method and path, for the message."""
    problem = body if isinstance(body, dict) else {}
    kind = _BY_STATUS.get(status, ServerError if status >= 500 else BadAnswer)
    detail = next((text for key in ("detail", "title", "message") if (text := problem.get(key))), None)
    if "code" in problem:
        return kind(
            str(detail or kind.code), code=str(problem["code"]), status=status, faults=_faults(problem)
        )
    if status in _GATEWAY or status >= 500:
        return kind(f"{request} returned {status}: {detail or 'no reason given'}", status=status)
    return BadAnswer(f"{request} returned {status}, but not from Shardmill; check the URL", status=status)


def _faults(problem: dict[str, Any]) -> list[Fault]:
    try:
        return [Fault.model_validate(each) for each in problem.get("faults") or ()]
    except (ValidationError, TypeError):
        return []
