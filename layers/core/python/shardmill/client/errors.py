"""What can go wrong between a caller and Shardmill; every problem answer becomes one of these.

ShardmillError
├── NotConnected        nobody said where Shardmill is
├── Unreachable         nothing answers there
├── BadAnswer           something answers, but not as Shardmill does
├── Unauthorized        401
├── Forbidden           403
├── NotFound            404
├── Conflict            409
├── PreconditionFailed  412
├── Invalid             400, 413, 415, 422: the request, with its faults
│   ├── BadName         a name that nothing can have; it was not even sent
│   └── BadFile         a file of this machine that cannot be sent, or written
├── TransferFailed      a file did not come through
├── Throttled           429
├── ServerError         5xx
└── WaitTimedOut        the Job or backfill did not end in time; it goes on
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from shardmill.model.fault import Fault

if TYPE_CHECKING:
    from shardmill.model.job import Job
    from shardmill.model.time.schedule import Backfill


SHOWN_FAULTS = 10


class ShardmillError(Exception):
    """Shardmill did not do what was asked. `status` is that of HTTP, 0 if there was no answer."""

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
    """A line for each of the first faults: a traceback should tell what to mend."""
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
    """`job` or `backfill` is what was waited for, as it was last seen."""

    code = "wait-timed-out"

    def __init__(self, detail: str, *, job: Job | None = None, backfill: Backfill | None = None) -> None:
        super().__init__(detail)
        self.job = job
        self.backfill = backfill


_KINDS: dict[int, type[ShardmillError]] = {
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
# API Gateway itself answers these, in its own words, before any function is asked.
_GATEWAY = {401, 403, 413, 429}


def problem_error(status: int, body: Any, where: str) -> ShardmillError:
    """The exception for an answer that is no success; `where` names the request for people."""
    problem = body if isinstance(body, dict) else {}
    kind = _KINDS.get(status, ServerError if status >= 500 else BadAnswer)
    detail = next((text for key in ("detail", "title", "message") if (text := problem.get(key))), None)
    if "code" in problem:
        return kind(
            str(detail or kind.code), code=str(problem["code"]), status=status, faults=_faults(problem)
        )
    if status in _GATEWAY or status >= 500:
        return kind(f"{where} was answered {status}: {detail or 'without a reason'}", status=status)
    return BadAnswer(
        f"{where} was answered {status}, but not as Shardmill does; is the address right?", status=status
    )


def _faults(problem: dict[str, Any]) -> list[Fault]:
    try:
        return [Fault.model_validate(each) for each in problem.get("faults") or ()]
    except (ValidationError, TypeError):
        return []
