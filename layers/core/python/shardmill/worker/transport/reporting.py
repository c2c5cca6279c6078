"""Reporting results so that each is taken, or known never to be."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from shardmill.model.worker import Reported, Result
from shardmill.worker.task.outcome import MAX_REASON
from shardmill.worker.transport.base import Refused

log = logging.getLogger("shardmill.worker")

NEVER_TAKEN = {"invalid-request", "output-too-large", "body-too-large"}
"""Codes of a report that will not be taken, however often it is sent."""

_BROUGHT_ALONG = ("stdout", "stderr", "output", "files")

Send = Callable[[Sequence[Result]], list[Reported]]


def deliver(send: Send, results: Sequence[Result]) -> list[Reported]:
    """Report results; what became of each, with no answer for one that had to be given up.

    If they will never be taken together, each goes by itself. One that is not taken even so is a failure
    for good, without all that it brought along. Raises what else `send` raises: then all can be sent again.
    """
    try:
        return send(results)
    except Refused as refusal:
        if refusal.code not in NEVER_TAKEN:
            raise
        if len(results) > 1:
            return [answer for result in results for answer in deliver(send, [result])]
        return _as_a_failure(send, results[0], refusal)


def _as_a_failure(send: Send, result: Result, refusal: Refused) -> list[Reported]:
    reason = f"its result was refused ({refusal.code}): {refusal}"[:MAX_REASON]
    log.warning("result-refused task=%s attempt=%d reason=%s", result.task_id, result.attempt, reason)
    bare = {"outcome": "failed-permanent", "reason": reason}
    try:
        return send([result.model_copy(update=bare | dict.fromkeys(_BROUGHT_ALONG))])
    except Refused as error:
        if error.code not in NEVER_TAKEN:
            raise
        log.error(  # noqa: TRY400  the sentence says it all
            "result-given-up task=%s attempt=%d error=%s", result.task_id, result.attempt, error
        )
        return []
