"""Changing what a Job still has to do: its priority, groups, retries and limits, of all or of one step.

What was asked is kept in the Job's row first, so that steps planned later, the next run too, have it. Steps
that are there are changed after that; what a crash leaves undone, the tick does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shardmill.aws.queues import lane_of
from shardmill.engine.errors import Busy, JobEnded, RequestInvalid, StepNotFound
from shardmill.engine.groups.matching import group_rows
from shardmill.engine.mill import Mill
from shardmill.engine.tasks import fair_share, messages
from shardmill.model.actor import Actor
from shardmill.model.base import spelled
from shardmill.model.definition.fields import StepDefine
from shardmill.model.fault import fault
from shardmill.model.states import StepState
from shardmill.store.codec import to_json
from shardmill.store.rows import JobRow, StepRow

ALL_STEPS = ""
_TRIES = 6
Wish = Mapping[str, Any]
"""Names of StepDefine (`priority`, `worker_groups`, `max_task_count` …) and their new values."""


def change(
    mill: Mill,
    job: JobRow,
    wish: Wish,
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
    for _ in range(_TRIES):
        if not present or present.state.ended:
            state = present.state if present else "gone"
            raise JobEnded(f"the Job {job.job_name}/{job.trigger} has ended as {state}")
        wished = _merged(present.changes, wish, step_name)
        if wished == present.changes:
            return carry_out(mill, present, now) if present.unapplied else present
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
            return carry_out(mill, changed, now)
        present = mill.jobs.get(job.id)
    raise Busy("too many change this Job at once; ask again")


def _check(mill: Mill, job: JobRow, wish: Wish, step_name: str, now: int) -> None:
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


def _merged(known: dict[str, Any], wish: Wish, step_name: str) -> dict[str, Any]:
    """What was asked for so far and now; what is asked for all steps goes before what one was given."""
    merged = {name: dict(each) for name, each in known.items()}
    if not step_name:
        for each in merged.values():
            for name in wish:
                each.pop(name, None)
    merged.setdefault(step_name, {}).update(wish)
    return {name: each for name, each in merged.items() if each}


def _groups(job: JobRow, wish: Wish, step_name: str) -> set[str]:
    """The groups that a Job needs, of which none can be deleted; where all steps are moved, no others."""
    wanted = set(wish.get("worker_groups", ()))
    return wanted if wanted and not step_name else job.groups | wanted


def _in_words(wish: Wish) -> str:
    return ", ".join(f"{spelled(name)} to {_text(value)}" for name, value in wish.items())


def _text(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)


def wished_for(job: JobRow, step_name: str) -> dict[str, Any]:
    """What was asked for a step of a Job."""
    return {**job.changes.get(ALL_STEPS, {}), **job.changes.get(step_name, {})}


def carry_out(mill: Mill, job: JobRow, now: int) -> JobRow:
    """Give the steps that are there what was asked for them; may be repeated.

    If somebody asked for more meanwhile, his word may have been carried out before this one: it is once more.
    """
    for _ in range(_TRIES):
        for step in mill.jobs.steps(job.id, job.run):
            if step.kind == "step" and not step.state.ended:
                _change_step(mill, step, wished_for(job, step.name), now)
        if mill.jobs.changes_done(job):
            return job
        job = mill.jobs.get(job.id) or job
    raise Busy("too many change this Job at once; ask again")


def _change_step(mill: Mill, step: StepRow, wish: Wish, now: int) -> None:
    present: StepRow | None = step
    for _ in range(_TRIES):
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
    raise Busy(f"too many change step {step.name!r} at once; ask again")


def _changes(step: StepRow, wish: Wish) -> dict[str, Any]:
    """What of a step's row becomes another."""
    spec = StepDefine.model_validate(step.spec).model_copy(update=dict(wish))
    changes: dict[str, Any] = {}
    new = {**step.spec, **spec.model_dump(mode="json", by_alias=True, include=set(wish))}
    if new != step.spec:
        changes["spec"] = to_json(new)
    if "priority" in wish and step.priority != wish["priority"]:
        changes["priority"] = wish["priority"]
    if "worker_groups" in wish and step.groups != wish["worker_groups"]:
        changes |= {"groups": wish["worker_groups"], "sent_to": None}
    if "max_task_count" in wish and step.total and step.spec.get("maxTaskCount") != wish["max_task_count"]:
        changes |= {"window": min(wish["max_task_count"], step.total), "uneven": step.begun or None}
    if step.spec.get("timeoutSeconds") != new.get("timeoutSeconds"):
        changes["longest"] = _longest(step, new["timeoutSeconds"])
    return changes


def _longest(step: StepRow, timeout: int) -> int:
    """The time that an attempt leased before may take; 0 for any."""
    before = step.longest if step.longest is not None else step.spec.get("timeoutSeconds") or 0
    begun = step.state is not StepState.WAITING
    return max(before, timeout) if before or not begun else 0


def _moves_messages(step: StepRow, changes: Mapping[str, Any]) -> bool:
    """Whether the messages of a step are not where they should be, or not as many."""
    lane = lane_of(changes.get("priority", step.priority))
    return lane != lane_of(step.priority) or "groups" in changes or "window" in changes
