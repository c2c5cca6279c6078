"""The id of a task, `{job id}_{step index}_{rank}`, and its name for people."""

from __future__ import annotations

import re

from shardmill.store.rows import StepRow

_TASK_ID = re.compile(r"^([0-9a-f-]{36})_(\d{1,4})_(\d{1,7})$")


def task_id(step: StepRow, rank: int) -> str:
    return f"{step.job_id}_{step.index}_{rank}"


def task_name(step: StepRow, rank: int) -> str:
    """Return a task as users know it: by the index that counts from the step's startShardId."""
    return f"task {rank + step.settings.start_shard_id} of step {step.name}"


def parse_task_id(text: str) -> tuple[str, int, int] | None:
    """Return the Job's id, the step's index and the rank, or None if the text is not a task id."""
    match = _TASK_ID.match(text)
    return (match[1], int(match[2]), int(match[3])) if match else None
