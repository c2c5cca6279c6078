"""The recorded attempts of some tasks of a step at once, for a timeline."""

from __future__ import annotations

from collections.abc import Sequence

from shardmill.engine.mill import Mill
from shardmill.engine.tasks import attempts
from shardmill.engine.views.tasks import rank_of
from shardmill.model.base import Answer, Time
from shardmill.model.timestamps import optional_from_ms
from shardmill.store.rows import StepRow

MAX_TASKS = 50


class TaskAttempt(Answer):
    """One attempt at a task in this run; `reason` is absent for a success."""

    index: int
    attempt: int
    worker: str | None = None
    start_time: Time | None = None
    end_time: Time | None = None
    reason: str | None = None


class TaskAttempts(Answer):
    """The recorded attempts of the requested tasks, by task."""

    items: list[TaskAttempt]


def task_attempts(mill: Mill, step: StepRow, indexes: Sequence[int]) -> TaskAttempts:
    """Return the recorded attempts of tasks, with a query for each; a success without a log has no record."""
    found = [
        TaskAttempt(
            index=index,
            attempt=each["attempt"],
            worker=each.get("worker") or None,
            start_time=optional_from_ms(each.get("startTime")),
            end_time=optional_from_ms(each.get("endTime")),
            reason=each.get("reason"),
        )
        for index in dict.fromkeys(indexes)
        for each in attempts.list_attempts(mill, step.home, rank_of(step, index))
    ]
    return TaskAttempts(items=found)
