"""The logs of tasks: short ones are in the attempt's row, long ones in S3 in chunks."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from dataclasses import dataclass

from shardmill.engine.files import keys
from shardmill.engine.files.held_attempt import Holding
from shardmill.engine.mill import Mill
from shardmill.model.job import Task
from shardmill.model.states import TaskState
from shardmill.store.rows import StepRow

PAGE_BYTES = 1_000_000
FOLLOWED_MS = 60_000


@dataclass(frozen=True, slots=True)
class LogPage:
    text: str
    offset: int
    complete: bool


def read(
    mill: Mill, step: StepRow, task: Task, stream: str, offset: int, attempt: int | None, now: int
) -> LogPage:
    """A page of the log of a task's attempt (the last one unless given) from a byte offset on.

    The worker of a task that runs learns by its next heartbeat that somebody reads along.
    """
    number = attempt or task.attempt
    if task.state is TaskState.RUNNING and number == task.attempt and task.worker:
        mill.workers.follow(task.worker, task.id, until=now + FOLLOWED_MS)
    over = task.state.ended or number < task.attempt
    stored = None
    for run in range(step.run, 0, -1):  # attempts count on: one of an earlier run has its log there
        prefix = keys.log(step.job_id, run, step.index, task.rank, number, stream)
        stored = mill.files.read_chunks(prefix, offset=offset, most=PAGE_BYTES)
        if stored is not None:
            break
    if stored is None:
        texts = [getattr(kept, stream) or "" for kept in task.attempts if kept.attempt == number]
        data, more = (texts[-1].encode()[offset:] if texts else b""), False
    else:
        data, more = stored
    complete = over and not more
    text, used = whole_text(data, final=complete)
    return LogPage(text, offset + used, complete)


def whole_text(data: bytes, *, final: bool) -> tuple[str, int]:
    """The text of a piece of a log, and how many bytes it is; a character cut off waits for its rest."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    text = decoder.decode(data, final=final)
    return text, len(data) - len(decoder.getstate()[0])


def upload_urls(mill: Mill, held: Holding, stream: str, chunks: Iterable[int]) -> list[dict[str, object]]:
    """Presigned addresses for the chunks of a log, for the worker that holds the task."""
    prefix = held.log_prefix(stream)
    return [{"chunk": n, "url": mill.files.put_url(keys.log_chunk(prefix, n))} for n in chunks]
