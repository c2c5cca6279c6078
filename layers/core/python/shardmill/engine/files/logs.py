"""Task logs: a short log is in the attempt's row, a long one in S3 in numbered chunks."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable, Iterator
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
    _follow(mill, task, number, now)
    ended = task.state.ended or number < task.attempt or step.state.ended
    stored = None
    for prefix in prefixes(step, task.rank, number, stream):
        stored = mill.files.read_chunks(prefix, offset=offset, most=PAGE_BYTES)
        if stored is not None:
            break
    data, more = stored or (_kept(task, number, stream).encode()[offset:], False)
    last = ended and not more
    text, used = fitting_page(data, final=last)
    return LogPage(text, offset + used, last and used == len(data))


def read_end(mill: Mill, step: StepRow, task: Task, stream: str, now: int, *, most: int) -> str:
    """Read the last `most` bytes of the log of the latest attempt."""
    _follow(mill, task, task.attempt, now)
    found = stored_end(mill, prefixes(step, task.rank, task.attempt, stream), most)
    return _kept(task, task.attempt, stream) if found is None else found


def stored_end(mill: Mill, places: Iterable[str], most: int) -> str | None:
    """The last `most` bytes of the first log that is stored under one of the prefixes."""
    for prefix in places:
        found = mill.files.read_end(prefix, most=most)
        if found is not None:
            return found.decode(errors="replace")
    return None


def prefixes(step: StepRow, rank: int, attempt: int, stream: str) -> Iterator[str]:
    """The possible prefixes of an attempt's log: attempts are counted over all reruns, a log stays in its
    run."""
    for run in range(step.run, 0, -1):
        yield keys.log(step.job_id, run, step.index, rank, attempt, stream)


def _follow(mill: Mill, task: Task, attempt: int, now: int) -> None:
    if task.state is TaskState.RUNNING and attempt == task.attempt and task.worker:
        mill.workers.follow(task.worker, task.id, until=now + FOLLOW_MS)


def _kept(task: Task, attempt: int, stream: str) -> str:
    """The log in the attempt's row; empty if it is not there."""
    texts = [getattr(kept, stream) or "" for kept in task.attempts if kept.attempt == attempt]
    return texts[-1] if texts else ""


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
