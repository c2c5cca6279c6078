"""Apply the changes that were requested for a Job (priority, groups, limits) to its steps.

The request is stored in the Job's row first, so a crash between the two is repaired by the tick.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shardmill.aws.queues import lane_of
from shardmill.engine.conflict import Attempts
from shardmill.engine.mill import Mill
from shardmill.engine.tasks import fair_share, messages
from shardmill.model.states import StepState
from shardmill.store.codec import to_json
from shardmill.store.rows import JobRow, StepRow

ALL_STEPS = ""


def requested_changes(job: JobRow, step_name: str) -> dict[str, Any]:
    """What was asked for a step of a Job."""
    return {**job.changes.get(ALL_STEPS, {}), **job.changes.get(step_name, {})}


def apply_changes(mill: Mill, job: JobRow, now: int) -> JobRow:
    """Give the steps that are there what was asked for them; may be repeated.

    If somebody asked for more meanwhile, his word may have been carried out before this one: it is once more.
    """
    attempts = Attempts("the job")
    while True:
        attempts.begin()
        for step in mill.jobs.steps(job.id, job.run):
            if step.kind == "step" and not step.state.ended:
                _change_step(mill, step, requested_changes(job, step.name), now)
        if mill.jobs.changes_applied(job):
            return job
        job = mill.jobs.get(job.id) or job


def _change_step(mill: Mill, step: StepRow, wish: Changes, now: int) -> None:
    present: StepRow | None = step
    attempts = Attempts(f"the step {step.name!r}")
    while True:
        attempts.begin()
        if not present or present.state.ended or present.stopping:
            return
        changes = _changes(present, wish)
        if not changes:
            return
        if present.opened and _moves_messages(present, changes):
            renewed = mill.jobs.raise_generation(present, **changes)
            if renewed:
                fair_share.move(mill, present, renewed)
                messages.send_again(mill, renewed, now)
                messages.send_open(mill, renewed, now, last=False)
                return
        elif changed := mill.jobs.change_step(present, **changes):
            fair_share.move(mill, present, changed)
            return
        present = mill.jobs.step(step.job_id, step.run, step.index)


def _changes(step: StepRow, wish: Changes) -> dict[str, Any]:
    """What of a step's row becomes another."""
    spec = step.define.model_copy(update=dict(wish))
    changes: dict[str, Any] = {}
    new = {**step.spec, **spec.model_dump(mode="json", by_alias=True, include=set(wish))}
    if new != step.spec:
        changes["spec"] = to_json(new)
    if "priority" in wish and step.priority != wish["priority"]:
        changes["priority"] = wish["priority"]
    if "worker_groups" in wish and step.groups != wish["worker_groups"]:
        changes |= {"groups": wish["worker_groups"], "sent_to": None}
    if "max_task_count" in wish and step.total and step.settings.max_task_count != wish["max_task_count"]:
        changes |= {"window": min(wish["max_task_count"], step.total), "uneven": step.begun or None}
    if step.settings.timeout_seconds != new.get("timeoutSeconds"):
        changes["longest"] = _longest(step, new["timeoutSeconds"])
    return changes


def _longest(step: StepRow, timeout: int) -> int:
    """The time that an attempt leased before may take; 0 for any."""
    before = step.longest if step.longest is not None else step.settings.timeout_seconds or 0
    begun = step.state is not StepState.WAITING
    return max(before, timeout) if before or not begun else 0


def _moves_messages(step: StepRow, changes: Mapping[str, Any]) -> bool:
    """Whether the messages of a step are not where they should be, or not as many."""
    lane = lane_of(changes.get("priority", step.priority))
    return lane != lane_of(step.priority) or "groups" in changes or "window" in changes


Changes = Mapping[str, Any]
"""Names of StepDefine (`priority`, `worker_groups`, `max_task_count` …) and their new values."""
