"""Changing what a Job still has to do: its priority, groups, retries and limits, of all or of one step.

What was asked is kept in the Job's row first, so that steps planned later, the next run too, have it. Steps
that are there are changed after that; what a crash leaves undone, the tick does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shardmill.engine.conflict import Attempts
from shardmill.engine.errors import JobEnded, RequestInvalid, StepNotFound
from shardmill.engine.groups.matching import group_rows
from shardmill.engine.mill import Mill
from shardmill.engine.running.changes import ALL_STEPS, Changes, apply_changes
from shardmill.model.actor import Actor
from shardmill.model.base import spelled
from shardmill.model.fault import fault
from shardmill.store.rows import JobRow


def change(
    mill: Mill,
    job: JobRow,
    wish: Changes,
    actor: Actor,
    now: int,
    *,
    step_name: str = ALL_STEPS,
    reason: str = "",
) -> JobRow:
    """Change all steps of a Job, or one of them; tasks that are leased already end as they began."""
    _check(mill, job, wish, step_name, now)
    why = f"changed {_in_words(wish)}" + (f" of step {step_name}" if step_name else "")
    present: JobRow | None = job
    attempts = Attempts(f"the job {job.job_name}/{job.trigger}")
    while True:
        attempts.begin()
        if not present or present.state.ended:
            state = present.state if present else "gone"
            raise JobEnded(f"the Job {job.job_name}/{job.trigger} has ended as {state}")
        wished = _merged(present.changes, wish, step_name)
        if wished == present.changes:
            return apply_changes(mill, present, now) if present.unapplied else present
        groups = _groups(present, wish, step_name)
        priority = wish["priority"] if "priority" in wish and not step_name else present.priority
        changed = mill.jobs.change(
            present,
            changes=wished,
            priority=priority,
            groups=groups,
            now=now,
            actor=actor.name,
            reason=f"{why}: {reason}" if reason else why,
        )
        if changed:
            return apply_changes(mill, changed, now)
        present = mill.jobs.get(job.id)


def _check(mill: Mill, job: JobRow, wish: Changes, step_name: str, now: int) -> None:
    if step_name:
        saved = mill.definitions.version(job.job_name, job.version)
        if not saved or all(step["stepName"] != step_name for step in saved.document["steps"]):
            raise StepNotFound(f"the Job {job.job_name}/{job.trigger} has no step {step_name!r}")
    wanted = wish.get("worker_groups", ())
    known = group_rows(mill, wanted, now)
    missing = [name for name in wanted if name not in known]
    if missing:
        name = missing[0]
        text = f"there is no worker group {name!r}; make it with PUT /v1/groups/{name}"
        wrong = fault(("workerGroups", list(wanted).index(name)), "unknown-group", text)
        raise RequestInvalid("the change is not valid", faults=[wrong.model_dump()])


def _merged(known: Mapping[str, Any], wish: Changes, step_name: str) -> dict[str, Any]:
    """What was asked for so far and now; what is asked for all steps goes before what one was given."""
    merged = {name: dict(each) for name, each in known.items()}
    if not step_name:
        for each in merged.values():
            for name in wish:
                each.pop(name, None)
    merged.setdefault(step_name, {}).update(wish)
    return {name: each for name, each in merged.items() if each}


def _groups(job: JobRow, wish: Changes, step_name: str) -> set[str]:
    """The groups that a Job needs, of which none can be deleted; where all steps are moved, no others."""
    wanted = set(wish.get("worker_groups", ()))
    return wanted if wanted and not step_name else {*job.groups, *wanted}


def _in_words(wish: Changes) -> str:
    return ", ".join(f"{spelled(name)} to {_text(value)}" for name, value in wish.items())


def _text(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)
