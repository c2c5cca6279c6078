"""Logs of workunits, and the reports and performance of jobs that are made of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from shardmill.engine.awe.documents import is_done, read_steps, task_state
from shardmill.engine.awe.task_names import submitted_name, task_id, unit_id
from shardmill.engine.awe.wording import notes_text
from shardmill.engine.files import logs
from shardmill.engine.mill import Mill
from shardmill.engine.views.tasks import first_index, read_task
from shardmill.model.awe import states
from shardmill.model.awe.times import awe_time
from shardmill.model.blocks import Shard
from shardmill.store.rows import JobRow, StepRow

MAX_WORKUNITS = 200
"""Maximum number of workunits in one report of a job; others need an offset."""
MAX_BYTES = 4_000_000
"""The logs in one report of a job, as they are in a response."""
MAX_LOG_BYTES = 5_000_000
STREAMS = ("stdout", "stderr", "worknotes")


def read_log(
    mill: Mill, job: JobRow, step: StepRow, rank: int, stream: str, now: int, *, most: int = MAX_LOG_BYTES
) -> str:
    """The log of the latest attempt at a workunit, or its end; empty if there is none."""
    if stream in ("stdout", "stderr"):
        task = read_task(mill, job, step, rank + first_index(step))
        return logs.read_end(mill, step, task, stream, now, most=most)
    attempt = _shard(mill, step, rank).attempt
    return logs.stored_end(mill, logs.prefixes(step, rank, attempt, stream), most) or ""


def _shard(mill: Mill, step: StepRow, rank: int) -> Shard:
    from shardmill.model.blocks import block_of

    return mill.shards.blocks(step, [block_of(rank)])[block_of(rank)][rank]


class WorkRange(NamedTuple):
    """A part of the workunits of a job, in the order of its tasks."""

    offset: int = 0
    limit: int = MAX_WORKUNITS

    def ranks(self, before: int, step: StepRow) -> range:
        """The ranks of a step in the range, given the number of workunits of the steps before it."""
        first, end = self.offset - before, self.offset + self.limit - before
        return range(max(0, first), max(0, min(step.total, end)))


class Found(NamedTuple):
    """Data about workunits of a job, and the number of workunits of the job.

    `taken`: how many of the requested workunits fit into an answer; None if all do.
    """

    document: dict[str, Any]
    total: int
    taken: int | None = None


class _Logs:
    """The logs of a job's workunits, step by step, as many as fit into an answer."""

    def __init__(self, mill: Mill, job: JobRow, wanted: WorkRange, streams: Sequence[str], now: int) -> None:
        self._mill, self._job, self._now = mill, job, now
        self._wanted, self._streams = wanted, streams
        self._room, self._full = MAX_BYTES, False
        self._taken = self.total = 0

    @property
    def taken(self) -> int | None:
        return self._taken if self._full else None

    def of_step(self, step: StepRow) -> list[tuple[int, dict[str, str]]]:
        """The ranks of the next step, each with its logs that are not empty."""
        found = []
        for rank in self._wanted.ranks(self.total, step):
            texts = {} if self._full else self._read(step.home, rank)
            self._room -= sum(map(_size, texts.values()))
            self._full = self._full or self._room < 0
            if self._full:
                break
            self._taken += 1
            found.append((rank, texts))
        self.total += step.total
        return found

    def _read(self, step: StepRow, rank: int) -> dict[str, str]:
        if not _shard(self._mill, step, rank).attempt:
            return {}
        most = MAX_BYTES // len(self._streams)
        texts = {
            name: read_log(self._mill, self._job, step, rank, name, self._now, most=logs.PAGE_BYTES)
            for name in self._streams
        }
        return {name: _end(text, most) for name, text in texts.items() if text}


def _end(text: str, most: int) -> str:
    while _size(text) > most:
        text = text[len(text) // 2 :]
    return text


def _size(text: str) -> int:
    """The size of a text in a response, which is JSON inside a JSON string."""
    return len(json.dumps(json.dumps(text)))


def report(mill: Mill, job: JobRow, wanted: WorkRange, now: int) -> Found:
    """The logs of workunits of a job."""
    read = _Logs(mill, job, wanted, STREAMS, now)
    steps = read_steps(mill, job).steps
    document = {
        "id": job.id,
        "state": states.JOB[job.state],
        "updatetime": awe_time(job.update_time),
        "notes": notes_text(job.notes, steps),
        "tasks": [_reported_task(step, read) for step in steps],
    }
    return Found(document, read.total, read.taken)


def _reported_task(step: StepRow, read: _Logs) -> dict[str, Any]:
    works = []
    for rank, texts in read.of_step(step):
        identity = unit_id(step, rank)
        shown = rank + 1 if step.total > 1 else 0
        works.append({"wuid": identity, "id": identity, "rank": shown, "logs": texts})
    return {
        "taskid": submitted_name(step),
        "id": task_id(step),
        "state": task_state(step),
        "totalwork": max(1, step.total),
        "completeddate": awe_time(step.completed_time if is_done(step) else None),
        "workunits": works,
    }


def performance(mill: Mill, job: JobRow, wanted: WorkRange, now: int) -> Found:
    """The times of a job and its tasks, and the measurements of clients."""
    steps = read_steps(mill, job).steps
    read = _Logs(mill, job, wanted, ("perf",), now)
    document = {
        "id": job.id,
        "queued": job.create_time // 1000,
        "start": (job.started_time or 0) // 1000,
        "end": (job.completed_time or 0) // 1000,
        "resp": ((job.completed_time or now) - job.create_time) // 1000,
        "ptasks": {
            task_id(step): {
                "queued": (step.queued_time or 0) // 1000,
                "start": (step.started_time or 0) // 1000,
                "end": (step.completed_time or 0) // 1000,
                "computetime": step.compute_ms // 1000,
            }
            for step in steps
        },
        "pworks": {
            unit_id(step, rank): _parsed(texts["perf"])
            for step in steps
            for rank, texts in read.of_step(step)
            if texts
        },
    }
    return Found(document, read.total, read.taken)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return {"text": text}
