"""Apply the changes that were requested for a Job (priority, groups, limits) to its steps.

control/change checks a request and stores it in the Job's row before this module applies it, so the tick can
repeat what a crash interrupts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shardmill.engine.conflict import Attempts
from shardmill.engine.continuation import Budget, continue_soon
from shardmill.engine.mill import Mill
from shardmill.engine.tasks import fair_share, messages
from shardmill.model.states import StepState
from shardmill.store.codec import to_json
from shardmill.store.rows import JobRow, StepRow

ALL_STEPS = ""
_CALLS_PER_CHANGE = 2

Changes = Mapping[str, Any]
"""Fields of StepDefine (`priority`, `worker_groups`, `max_task_count`, …) and their new values."""


def requested_changes(job: JobRow, step_name: str) -> dict[str, Any]:
    """Return the changes that were requested for a step, by name or for all steps."""
    return {**job.changes.get(ALL_STEPS, {}), **job.changes.get(step_name, {})}


def apply_changes(mill: Mill, job: JobRow, now: int, budget: Budget) -> JobRow:
    """Apply the requested changes to the steps that have not ended; idempotent.

    A newer request may have been applied concurrently and overwritten here, so its changes are applied again.
    Other calls continue work that exceeds the budget: steps that are changed already cost nothing.
    """
    attempts = Attempts("the job")
    while True:
        attempts.begin()
        for step in mill.jobs.steps(job.id, job.run):
            if step.kind == "step" and not step.state.ended:
                if budget.spent:
                    continue_soon(mill, job.id, now)
                    return job
                _change_step(mill, step, requested_changes(job, step.name), now, budget)
        if mill.jobs.changes_applied(job):
            return job
        job = mill.jobs.get(job.id) or job


def _change_step(mill: Mill, step: StepRow, requested: Changes, now: int, budget: Budget) -> None:
    present: StepRow | None = step
    attempts = Attempts(f"the step {step.name!r}")
    while True:
        attempts.begin()
        if not present or present.state.ended or present.stopping:
            return
        changes = _changed_attributes(present, requested)
        if not changes:
            return
        budget.spend(_CALLS_PER_CHANGE)
        if present.opened and _moves_messages(changes):
            renewed = mill.jobs.raise_generation(present, **changes)
            if renewed:
                fair_share.move(mill, present, renewed)
                messages.send_new_generation(mill, renewed, now, budget)
                return
        elif changed := mill.jobs.change_step(present, **changes):
            fair_share.move(mill, present, changed)
            return
        present = mill.jobs.step(step.job_id, step.run, step.index)


def _changed_attributes(step: StepRow, requested: Changes) -> dict[str, Any]:
    """Return the attributes of the step's row that the requested changes modify."""
    spec = step.define.model_copy(update=dict(requested))
    changes: dict[str, Any] = {}
    new = {**step.spec, **spec.model_dump(mode="json", by_alias=True, include=set(requested))}
    if new != step.spec:
        changes["spec"] = to_json(new)
    if "priority" in requested and step.priority != requested["priority"]:
        changes["priority"] = requested["priority"]
    if "worker_groups" in requested and step.groups != requested["worker_groups"]:
        changes |= {"groups": requested["worker_groups"], "sent_to": None}
    limit = requested.get("max_task_count")
    if limit is not None and step.total and step.settings.max_task_count != limit:
        changes |= {"window": min(limit, step.total), "uneven": step.in_progress or None}
    if step.settings.timeout_seconds != new.get("timeoutSeconds"):
        changes["longest"] = _longest_timeout(step, new["timeoutSeconds"])
    return changes


def _longest_timeout(step: StepRow, timeout: int) -> int:
    """Return the longest timeout of any attempt leased so far, in seconds; 0 for no limit."""
    before = step.longest if step.longest is not None else step.settings.timeout_seconds or 0
    begun = step.state is not StepState.WAITING
    return max(before, timeout) if before or not begun else 0


def _moves_messages(changes: Mapping[str, Any]) -> bool:
    """Return whether a step's messages must be sent again, to other queues or in another number."""
    return not changes.keys().isdisjoint(("priority", "groups", "window"))
