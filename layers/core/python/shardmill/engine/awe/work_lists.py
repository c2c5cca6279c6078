"""Lists of workunits, and the summary of the queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from shardmill.engine.access.visible import Visible
from shardmill.engine.awe.client_documents import BUSY, IDLE, status_of
from shardmill.engine.awe.documents import read_steps, task_state
from shardmill.engine.awe.job_filters import ACTIVE, FAILED
from shardmill.engine.mill import Mill
from shardmill.engine.views.jobs import counts
from shardmill.engine.views.tasks import displayed_shard
from shardmill.engine.views.workers import worker_view
from shardmill.model.awe import states
from shardmill.model.blocks import Shard
from shardmill.model.states import JobState
from shardmill.model.worker import WorkerStatus
from shardmill.store.rows import JobRow, StepRow

MAX_JOBS = 200
MAX_WORKERS = 2_000
_WORKUNITS = {"queuing": "queued", "checkout": "checkout", "suspended": "suspend"}


class ListedWork(NamedTuple):
    job: JobRow
    step: StepRow
    rank: int
    shard: Shard


def live_jobs(mill: Mill, visible: Visible) -> list[JobRow]:
    """The jobs in the queue; if there are very many, the newest in each state."""
    found: list[JobRow] = []
    for state in (*ACTIVE, JobState.SUSPENDED):
        rows = mill.jobs.page(job_name=None, state=state.value, before=None, limit=MAX_JOBS)
        found += [job for job in islice(rows, MAX_JOBS) if visible.job(job)]
    return found


def list_work(
    mill: Mill, jobs: list[JobRow], state: str, *, offset: int, limit: int
) -> tuple[list[ListedWork], int]:
    """A part of the workunits of jobs, or of the workunits in a state; and their total number.

    The counts of the steps show which steps contain the part and must be read.
    """
    shown: list[ListedWork] = []
    total = 0
    for job in jobs:
        steps = [step for step in read_steps(mill, job).steps if step.total]
        numbers = counts(mill, steps)
        for step in steps:
            found = sum(n for each, n in numbers[step.index].items() if state in ("", states.WORK[each]))
            missing = limit - len(shown)
            if missing > 0 and total + found > offset:
                works = _of_step(mill, job, step, state)
                shown += islice(works, max(0, offset - total), max(0, offset - total) + missing)
            total += found
    return shown, total


def _of_step(mill: Mill, job: JobRow, step: StepRow, state: str) -> Iterator[ListedWork]:
    home = step.home
    for block in mill.shards.all_blocks(home):
        for rank, shard in block.items():
            work = ListedWork(job, home, rank, displayed_shard(home, shard))
            if state in ("", states.WORK[work.shard.state]):
                yield work


def queue_summary(mill: Mill, visible: Visible, now: int) -> dict[str, dict[str, int]]:
    """The numbers of jobs, tasks, workunits and clients, by state."""
    jobs = live_jobs(mill, visible)
    tasks: Counter[str] = Counter()
    works: Counter[str] = Counter()
    for job in jobs:
        steps = list(read_steps(mill, job).steps)
        tasks.update(map(task_state, steps))
        for found in counts(mill, [step for step in steps if step.total]).values():
            works.update({states.WORK[state]: number for state, number in found.items()})
    suspended = [job for job in jobs if job.state in FAILED]
    return {
        "jobs": {"total": len(jobs), "active": len(jobs) - len(suspended), "suspended": len(suspended)},
        "tasks": {
            "total": tasks.total(),
            "queuing": tasks["queued"],
            "in-progress": tasks["in-progress"],
            "pending": tasks["pending"] + tasks["init"],
            "completed": tasks["completed"],
            "suspended": tasks["suspend"],
            "failed": 0,
        },
        "workunits": {
            "total": sum(works[word] for word in _WORKUNITS.values()),
            **{name: works[word] for name, word in _WORKUNITS.items()},
        },
        "clients": _clients(mill, visible, now),
    }


def _clients(mill: Mill, visible: Visible, now: int) -> dict[str, int]:
    rows = islice(mill.workers.page(after=None, limit=MAX_WORKERS), MAX_WORKERS)
    views = [worker_view(mill, row, now) for row in rows if visible.groups(row.groups)]
    present = (WorkerStatus.ONLINE, WorkerStatus.DRAINING)
    words = Counter(status_of(view) for view in views if view.status in present)
    idle, busy = words[IDLE], words[BUSY]
    return {"total": words.total(), "busy": busy, "idle": idle, "suspended": words.total() - idle - busy}


def summary_text(summary: dict[str, dict[str, int]]) -> str:
    """The summary for people, one line for each number."""
    lines = []
    for name, numbers in summary.items():
        lines.append(f"total {name} {'.' * (16 - len(name))} {numbers['total']}")
        lines += [f"    {word + ':':<14}({number})" for word, number in numbers.items() if word != "total"]
    return "\n".join(lines)
