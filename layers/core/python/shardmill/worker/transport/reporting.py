"""Report results so that each one is accepted, or known to be unacceptable."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from shardmill.model.worker import Reported, Result
from shardmill.worker.outcome import MAX_REASON
from shardmill.worker.transport.base import Refused

log = logging.getLogger("shardmill.worker")

PERMANENT_CODES = {"invalid-request", "output-too-large", "body-too-large"}
"""Codes of reports that are refused permanently."""

_OPTIONAL_FIELDS = ("stdout", "stderr", "output", "files")

Send = Callable[[Sequence[Result]], list[Reported]]


def report_results(send: Send, results: Sequence[Result]) -> list[Reported]:
    """Report results and return the answers, without one for a result that had to be dropped.

    If a batch is refused permanently, each result is sent alone. A result that is refused again is reported
    as a permanent failure, without its outputs. Other exceptions of `send` are raised; all results can then
    be sent again.
    """
    try:
        return send(results)
    except Refused as refusal:
        if refusal.code not in PERMANENT_CODES:
            raise
        if len(results) > 1:
            return [answer for result in results for answer in report_results(send, [result])]
        return _report_failure(send, results[0], refusal)


def _report_failure(send: Send, result: Result, refusal: Refused) -> list[Reported]:
    reason = f"Shardmill refused the result ({refusal.code}): {refusal}"[:MAX_REASON]
    task = {"task": result.task_id, "attempt": result.attempt}
    log.warning(
        "Shardmill refused a result; reporting the task as failed",
        extra={"action": "result-refused", **task, "reason": reason},
    )
    failed = {"outcome": "failed-permanent", "reason": reason}
    try:
        return send([result.model_copy(update=failed | dict.fromkeys(_OPTIONAL_FIELDS))])
    except Refused as error:
        if error.code not in PERMANENT_CODES:
            raise
        log.error(  # noqa: TRY400  a traceback would add nothing
            "Shardmill refused the failure of a task as well; the task runs again after its lease",
            extra={"action": "result-dropped", **task, "error": str(error)},
        )
        return []


def log_ignored(answers: Sequence[Reported]) -> None:
    """Log the results that did not count."""
    for answer in answers:
        if answer.status not in ("ok", "already"):
            ignored = {"task": answer.task_id, "attempt": answer.attempt, "status": answer.status}
            log.warning(
                "a result was ignored: the attempt is no longer valid",
                extra={"action": "result-ignored", **ignored},
            )
