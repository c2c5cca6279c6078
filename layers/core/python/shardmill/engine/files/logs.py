"""Task logs: a short log is in the attempt's row, a long one in S3 in numbered chunks."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable
from dataclasses import dataclass

from shardmill.engine.files import keys
from shardmill.engine.files.held_attempt import HeldAttempt
from shardmill.engine.mill import Mill
from shardmill.model.job import Task
from shardmill.model.states import TaskState
from shardmill.store.rows import StepRow

PAGE_BYTES = 1_000_000
MAX_RESPONSE_BYTES = 5_000_000  # a Lambda response is at most 6 MB
MOST_ESCAPED = 7
"""The bytes of a control character in a response, whose body is JSON inside JSON: `\\\\u0001`."""
FOLLOW_MS = 60_000


@dataclass(frozen=True, slots=True)
class LogPage:
    text: str
    offset: int
    complete: bool


def read(
    mill: Mill, step: StepRow, task: Task, stream: str, offset: int, attempt: int | None, now: int
) -> LogPage:
    """Read a page of an attempt's log, by default the latest attempt's, starting at a byte offset.

    Reading the log of a running task asks its worker, in the next heartbeat, to upload the log frequently.
    """
    number = attempt or task.attempt
    if task.state is TaskState.RUNNING and number == task.attempt and task.worker:
        mill.workers.follow(task.worker, task.id, until=now + FOLLOW_MS)
    ended = task.state.ended or number < task.attempt or step.state.ended
    stored = None
    for run in range(step.run, 0, -1):  # attempt numbers continue over reruns; a log is in the attempt's run
        prefix = keys.log(step.job_id, run, step.index, task.rank, number, stream)
        stored = mill.files.read_chunks(prefix, offset=offset, most=PAGE_BYTES)
        if stored is not None:
            break
    if stored is None:
        texts = [getattr(kept, stream) or "" for kept in task.attempts if kept.attempt == number]
        data, more = (texts[-1].encode()[offset:] if texts else b""), False
    else:
        data, more = stored
    last = ended and not more
    text, used = fitting_page(data, final=last)
    return LogPage(text, offset + used, last and used == len(data))


def fitting_page(data: bytes, *, final: bool) -> tuple[str, int]:
    """Decode a page, or as much of it as certainly fits into a response."""
    text, used = decode_page(data, final=final)
    if len(json.dumps(json.dumps(text))) <= MAX_RESPONSE_BYTES:
        return text, used
    return decode_page(data[: MAX_RESPONSE_BYTES // MOST_ESCAPED], final=False)


def decode_page(data: bytes, *, final: bool) -> tuple[str, int]:
    """Decode UTF-8. Returns the text and the bytes used, without an incomplete character at the end."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    text = decoder.decode(data, final=final)
    return text, len(data) - len(decoder.getstate()[0])


def upload_urls(mill: Mill, held: HeldAttempt, stream: str, chunks: Iterable[int]) -> list[dict[str, object]]:
    """Presigned PUT URLs for chunks of the log of an attempt that a worker holds."""
    prefix = held.log_prefix(stream)
    return [{"chunk": n, "url": mill.files.put_url(keys.log_chunk(prefix, n))} for n in chunks]
