"""Change a Job's priority, groups, retries and limits, for all its steps or one.

The request is checked and stored in the Job's row, where steps planned later and later runs find it.
running/changes then applies it to the steps that exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shardmill.engine.conflict import Attempts
from shardmill.engine.continuation import Budget
from shardmill.engine.errors import JobEnded, RequestInvalid, StepNotFound
from shardmill.engine.groups.matching import group_rows
from shardmill.engine.mill import RECHECK_MS, Mill
from shardmill.engine.running.changes import ALL_STEPS, Changes, apply_changes
from shardmill.model.actor import Actor
from shardmill.model.base import spelled
from shardmill.model.fault import Path, fault
from shardmill.store.codec import to_json
from shardmill.store.rows import JobRow

MAX_CHANGES_BYTES = 30_000
MAX_GROUPS_BYTES = 10_000
"""Of the groups of a Job after changes of single steps; a Job that has more from the start keeps them."""


def change(
    mill: Mill,
    job: JobRow,
    requested: Changes,
    actor: Actor,
    now: int,
    *,
    step_name: str = ALL_STEPS,
    reason: str = "",
) -> JobRow:
    """Change all steps of a Job or one of them; attempts that run keep their settings."""
    check_change(mill, job, requested, now, step_name=step_name)
    summary = f"changed {describe(requested)}" + (f" of step {step_name}" if step_name else "")
    present: JobRow | None = job
    attempts = Attempts(f"the job {job.job_name}/{job.trigger}")
    while True:
        attempts.begin()
        if not present:
            raise JobEnded(f"the Job {job.job_name}/{job.trigger} has been deleted")
        merged = _next_changes(present, requested, step_name)
        if merged == present.changes:
            return apply_changes(mill, present, now, Budget()) if present.unapplied else present
        groups = _groups(present, requested, step_name)
        priority = requested["priority"] if "priority" in requested and not step_name else present.priority
        changed = mill.jobs.change(
            present,
            changes=merged,
            priority=priority,
            groups=groups,
            now=now,
            due=now + RECHECK_MS,
            actor=actor.name,
            reason=f"{summary}: {reason}" if reason else summary,
        )
        if changed:
            return apply_changes(mill, changed, now, Budget())
        present = mill.jobs.get(job.id)


def check_change(
    mill: Mill, job: JobRow, requested: Changes, now: int, *, step_name: str = ALL_STEPS
) -> bool:
    """Return whether a request changes a Job; only reads. Raises JobEnded, StepNotFound or RequestInvalid."""
    if step_name:
        saved = mill.definitions.version(job.job_name, job.version)
        if not saved or all(step["stepName"] != step_name for step in saved.document["steps"]):
            raise StepNotFound(f"the Job {job.job_name}/{job.trigger} has no step {step_name!r}")
    wanted = requested.get("worker_groups", ())
    known = group_rows(mill, wanted, now)
    missing = [name for name in wanted if name not in known]
    if missing:
        name = missing[0]
        text = f"there is no worker group {name!r}; create it with PUT /v1/groups/{name}"
        wrong = fault(("workerGroups", list(wanted).index(name)), "unknown-group", text)
        raise RequestInvalid("the change is not valid", faults=[wrong.model_dump()])
    _groups(job, requested, step_name)
    return _next_changes(job, requested, step_name) != job.changes


def _next_changes(job: JobRow, requested: Changes, step_name: str) -> dict[str, Any]:
    """Return all changes of a Job after a request. Raises JobEnded, or RequestInvalid if too large."""
    if job.state.ended:
        raise JobEnded(f"the Job {job.job_name}/{job.trigger} has ended as {job.state}")
    merged = _merged(job.changes, requested, step_name)
    _check_size(merged)
    return merged


def _check_size(merged: Changes) -> None:
    size = len(to_json(merged).encode())
    if size > MAX_CHANGES_BYTES:
        raise _too_many(("stepName",), f"all changes have {size} bytes; the limit is {MAX_CHANGES_BYTES}")


def _too_many(path: Path, text: str) -> RequestInvalid:
    wrong = fault(path, "too-many-changes", f"{text}: change all steps at once")
    return RequestInvalid("the change is not valid", faults=[wrong.model_dump()])


def _merged(known: Mapping[str, Any], requested: Changes, step_name: str) -> dict[str, Any]:
    """Merge a request into the earlier ones; a request for all steps overrides those for single steps."""
    merged = {name: dict(each) for name, each in known.items()}
    if not step_name:
        for each in merged.values():
            for name in requested:
                each.pop(name, None)
    merged.setdefault(step_name, {}).update(requested)
    return {name: each for name, each in merged.items() if each}


def _groups(job: JobRow, requested: Changes, step_name: str) -> set[str]:
    """Return the groups that the Job uses and that therefore cannot be deleted.

    Raises RequestInvalid if changes of single steps have used too many: they stay until all steps change.
    """
    wanted = set(requested.get("worker_groups", ()))
    if wanted and not step_name:
        return wanted
    groups = {*job.groups, *wanted}
    size = sum(map(len, groups))
    if groups > job.groups and size > MAX_GROUPS_BYTES:
        text = f"the names of all groups that were used have {size} bytes; the limit is {MAX_GROUPS_BYTES}"
        raise _too_many(("workerGroups",), text)
    return groups


def describe(requested: Changes) -> str:
    """Return the requested values in words."""
    return ", ".join(f"{spelled(name)} to {_text(value)}" for name, value in requested.items())


def _text(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)
