"""The live view of a worker's tasks."""

from collections.abc import Callable
from typing import Any

from shardmill.cli.render.worker_tasks import task_lines
from shardmill.model.job import TaskProgress
from shardmill.worker.inflight import InflightTask
from shardmill.worker.task.channel import LiveStatus
from support.fakes.leases import a_lease

Draw = Callable[[Any], list[str]]


def held(rank: int, progress: TaskProgress | None = None) -> InflightTask:
    return InflightTask(a_lease(rank=rank), started=100.0 - rank, live=LiveStatus(progress))


def test_one_line_per_running_task(draw: Draw) -> None:
    tasks = [held(1), held(2, TaskProgress(percent=50, message="half")), held(3)]
    rows = draw(task_lines(tasks, 100.0, 5))
    assert rows[0].split() == ["balance/t1", "main", "1", "1.0", "s"]
    assert rows[1].split()[:5] == ["balance/t1", "main", "2", "2.0", "s"]
    assert rows[1].rstrip().endswith("50% half")
    assert [row.strip() for row in draw(task_lines(tasks, 100.0, 2))[1:]] == ["… and 2 more"]
    assert draw(task_lines([], 100.0, 5)) == ["waiting for tasks"]
