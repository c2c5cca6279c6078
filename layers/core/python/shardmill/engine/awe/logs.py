"""Logs of workunits, and the reports and performance of jobs that are made of them."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from shardmill.engine.awe.documents import is_done, read_steps, task_state
from shardmill.engine.files import keys
from shardmill.engine.files.logs import PAGE_BYTES
from shardmill.engine.files.logs import read as read_log_page
from shardmill.engine.mill import Mill
from shardmill.engine.views.tasks import first_index, read_task
from shardmill.model.awe import states
from shardmill.model.awe.names import task_name, work_id
from shardmill.model.awe.times import awe_time
from shardmill.model.blocks import Shard
from shardmill.store.rows import JobRow, StepRow

MAX_WORKUNITS = 200
"""How many workunits one report of a job covers; further ones need an offset."""
MAX_BYTES = 4_000_000
STREAMS = ("stdout", "stderr", "worknotes")


def read_log(mill: Mill, job: JobRow, step: StepRow, rank: int, stream: str, now: int) -> str:
    """A log of the latest attempt at a workunit; empty if there is none."""
    if stream in ("stdout", "stderr"):
        task = read_task(mill, job, step, rank + first_index(step))
        return read_log_page(mill, step, task, stream, 0, None, now).text
    shard = _shard(mill, step, rank)
    for run in range(step.run, 0, -1):
        prefix = keys.log(step.job_id, run, step.index, rank, shard.attempt, stream)
        found = mill.files.read_chunks(prefix, offset=0, most=PAGE_BYTES)
        if found is not None:
            return found[0].decode(errors="replace")
    return ""


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


def report(mill: Mill, job: JobRow, wanted: WorkRange, now: int) -> tuple[dict[str, Any], int]:
    """The logs of workunits of a job, and how many workunits there are."""
    found = read_steps(mill, job)
    room, total, tasks = MAX_BYTES, 0, []
    for step in found.steps:
        works = []
        for rank in wanted.ranks(total, step):
            logs = {name: text for name in STREAMS if (text := _log(mill, job, step, rank, name, now))}
            room -= sum(map(_size, logs.values()))
            if room < 0:
                break
            identity = work_id(job.id, step.name, rank, step.total)
            shown = rank + 1 if step.total > 1 else 0
            works.append({"wuid": identity, "id": identity, "rank": shown, "logs": logs})
        total += step.total
        tasks.append(
            {
                "taskid": task_name(step.name),
                "id": f"{job.id}_{task_name(step.name)}",
                "state": task_state(step),
                "totalwork": max(1, step.total),
                "completeddate": awe_time(step.completed_time if is_done(step) else None),
                "workunits": works,
            }
        )
    document = {
        "id": job.id,
        "state": states.JOB[job.state],
        "updatetime": awe_time(job.update_time),
        "notes": job.notes,
        "tasks": tasks,
    }
    return document, total


def _size(text: str) -> int:
    """The size of a text in a response, which is JSON inside a JSON string."""
    return len(json.dumps(json.dumps(text)))


def _log(mill: Mill, job: JobRow, step: StepRow, rank: int, stream: str, now: int) -> str:
    return read_log(mill, job, step.home, rank, stream, now) if _shard(mill, step.home, rank).attempt else ""


def performance(mill: Mill, job: JobRow, wanted: WorkRange, now: int) -> tuple[dict[str, Any], int]:
    """The times of a job and its tasks, what clients measured, and how many workunits there are."""
    found = read_steps(mill, job)
    works: dict[str, Any] = {}
    room, total = MAX_BYTES, 0
    for step in found.steps:
        for rank in wanted.ranks(total, step):
            text = _log(mill, job, step, rank, "perf", now)
            room -= _size(text)
            if room < 0:
                break
            if text:
                works[work_id(job.id, step.name, rank, step.total)] = _parsed(text)
        total += step.total
    ended = job.completed_time or now
    document = {
        "id": job.id,
        "queued": job.create_time // 1000,
        "start": (job.started_time or 0) // 1000,
        "end": (job.completed_time or 0) // 1000,
        "resp": (ended - job.create_time) // 1000,
        "ptasks": {
            f"{job.id}_{task_name(step.name)}": {
                "queued": (step.queued_time or 0) // 1000,
                "start": (step.started_time or 0) // 1000,
                "end": (step.completed_time or 0) // 1000,
                "computetime": step.compute_ms // 1000,
            }
            for step in found.steps
        },
        "pworks": works,
    }
    return document, total


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return {"text": text}
