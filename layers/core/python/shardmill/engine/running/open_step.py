"""Open a step: evaluate its condition, compute how many tasks it has, and make its blocks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shardmill.engine.errors import CannotOpen
from shardmill.engine.files import outputs
from shardmill.engine.mill import Mill
from shardmill.engine.running.close_step import StillOpen, fail_step, job_and_step, step_row
from shardmill.engine.tasks import fair_share, messages
from shardmill.engine.tasks.park import park_step
from shardmill.engine.template_context import context_of
from shardmill.model.blocks import MAX_SENT_AT_OPENING, MAX_SHARDS, block_count, ranges, set_count
from shardmill.model.definition.field_types import MAX_ITEMS
from shardmill.model.definition.fields import is_sharded, total
from shardmill.model.definition.references import BEFORE_TASKS, templates
from shardmill.model.fault import Path
from shardmill.model.states import JobState, StepState
from shardmill.model.templates import render
from shardmill.model.templates.expression import kind
from shardmill.store.codec import to_json
from shardmill.store.rows import JobRow, StepRow

MAX_VALUE_BYTES = 200_000
MAX_STEP_BYTES = 330_000  # of an item of 400 KB; the rest is for attributes that are added later
MAX_OUTPUTS_READ = 100
_INTEGER_DIGITS = 7
_OPEN_TRIES = 6

Opened = dict[str, Any]
"""What an execution continues with: ranges of tasks to enqueue, their queues, and the sets of blocks."""


def open_step(mill: Mill, job_id: str, run: int, index: int, now: int) -> Opened:
    """Open a step in its execution, and send its first messages if they are few; idempotent."""
    job, step = job_and_step(mill, job_id, run, index)
    if step.state.ended or job.run != run or job.state.ended:
        return _nothing_to_enqueue(step)
    try:
        for _ in range(_OPEN_TRIES):
            if step.state is StepState.WAITING:
                step = _open(mill, step, _referenced_rows(mill, step), now)
    except CannotOpen as error:
        fail_step(mill, job_id, run, index, str(error), now)
        return _nothing_to_enqueue(step)
    if step.state is StepState.WAITING:
        raise StillOpen(f"step {step.name} is being modified concurrently; retry")
    suspended = job.state is JobState.SUSPENDED or _suspended_since(mill, job, step)
    return _enqueue(mill, step, now, suspended=suspended)


def open_ahead(mill: Mill, step: StepRow, now: int) -> Opened | None:
    """Open a step before its execution starts; idempotent.

    Return None if its execution must open it: it splits a file, reads many outputs, is being modified
    concurrently, or cannot be opened, which its execution records.
    """
    if step.state is not StepState.WAITING or step.spec.get("partition"):
        return None
    sources = _referenced_rows(mill, step)
    if sum(source.total for source in sources) > MAX_OUTPUTS_READ:
        return None
    try:
        step = _open(mill, step, sources, now)
    except CannotOpen:
        return None
    job = mill.jobs.get(step.job_id)  # suspend skips steps that are not open yet
    if not job or step.state is StepState.WAITING:
        return None
    return _enqueue(mill, step, now, suspended=job.state is JobState.SUSPENDED)


def _enqueue(mill: Mill, step: StepRow, now: int, *, suspended: bool) -> Opened:
    """Send the first messages of an opened step, or return the ranges that the state machine enqueues."""
    if suspended:
        step = park_step(mill, step, now, let_finish=False)
    elif step.opened and not step.started_time:
        step = fair_share.make_room(mill, step, now)
    opened = _nothing_to_enqueue(step)
    if not step.opened or not step.open:
        return opened
    queues = messages.queues_of(mill, step, now)
    if step.window > MAX_SENT_AT_OPENING:
        return opened | {"ranges": ranges(step.window), "queues": queues}
    messages.send_range(mill, queues, step.key, step.gen, range(step.window))
    return opened


def _suspended_since(mill: Mill, job: JobRow, step: StepRow) -> bool:
    """Return whether the Job was suspended while the step opened: suspend skips steps not open yet."""
    present = mill.jobs.get(job.id) if step.state is StepState.READY and not step.started_time else job
    return present is not None and present.state is JobState.SUSPENDED


def _nothing_to_enqueue(step: StepRow) -> Opened:
    sets = [] if step.state.ended else list(range(set_count(step.total)))
    return {"ranges": [], "sets": sets, "queues": [], "gen": step.gen}


def _open(mill: Mill, step: StepRow, sources: Iterable[StepRow], now: int) -> StepRow:
    """Open a step, or skip it if its condition is false; return its present row if it changed meanwhile.

    `sources`: the steps whose outputs its templates reference.
    """
    step = _with_upstream_outputs(mill, step, sources)
    if not _condition_holds(step):
        notes = f"its condition is false: {step.define.when}"
        changes: dict[str, Any] = {"completed_time": now, "notes": notes, "same_gen": True}
        skipped = mill.jobs.move_step(step, StepState.SKIPPED, now=now, **changes)
        return skipped or step_row(mill, step.job_id, step.run, step.index)
    if step.total:  # a rerun has set it, with the tasks that it keeps
        context = _with_task_values(step).context_text
        opened = mill.jobs.move_step(step, StepState.READY, now=now, same_gen=True, context=context)
        return opened or step_row(mill, step.job_id, step.run, step.index)
    step = _with_task_values(_with_tasks(mill, step))
    if step.two_levels:
        mill.shards.make_sets(step)
    members = set_count(step.total) if step.two_levels else block_count(step.total)
    opened = mill.jobs.move_step(
        step,
        StepState.READY,
        now=now,
        same_gen=True,
        total=step.total,
        window=fair_share.natural_window(step),
        open={str(member) for member in range(members)} or None,
        context=step.context_text,
    )
    return opened or step_row(mill, step.job_id, step.run, step.index)


def _referenced_rows(mill: Mill, step: StepRow) -> list[StepRow]:
    """Return the rows of the steps whose outputs the templates of a step reference."""
    named = _referenced_steps(templates(step.spec))
    if not named:
        return []
    refs = step.context["refs"]
    return list(mill.jobs.steps_by_key((step.job_id, step.run, refs[name]) for name in named).values())


def _with_upstream_outputs(mill: Mill, step: StepRow, sources: Iterable[StepRow]) -> StepRow:
    """Return the step with the outputs that its templates reference in its context."""
    found = {source.name: {"output": _output_of(mill, source)} for source in sources}
    return _with_context(step, steps=found) if found else step


def _with_context(step: StepRow, **values: Any) -> StepRow:
    return step.evolve(context={**step.context, **values})


def _with_task_values(step: StepRow) -> StepRow:
    """Drop the outputs that no task template references; raise CannotOpen if the rest does not fit."""
    kept = _referenced_steps(
        (path, text) for path, text in templates(step.spec) if path[0] not in BEFORE_TASKS
    )
    found = {name: each for name, each in step.context.get("steps", {}).items() if name in kept}
    others = {name: value for name, value in step.context.items() if name != "steps"}
    step = step.evolve(context={**others, **({"steps": found} if found else {})})
    size, spec = len(step.context_text.encode()), len(to_json(step.spec).encode())
    room = min(MAX_VALUE_BYTES, MAX_STEP_BYTES - spec)
    if size > room:
        raise CannotOpen(
            f"the outputs and items that its tasks use have {size} bytes; the limit is {max(room, 0)} with a "
            f"step definition of {spec} bytes; pass larger data in files"
        )
    return step


def _referenced_steps(texts: Iterable[tuple[Path, str]]) -> set[str]:
    """Return the names of the steps whose outputs the templates reference."""
    names = (name for _, text in texts if "{{" in text for name in render.names(text))
    return {name.split(".")[1] for name in names if name.startswith("steps.")}


def _output_of(mill: Mill, source: StepRow) -> Any:
    """Return the output of a step; of a sharded one a list in shard order, None where a task has none."""
    found = {output.rank: output.stored.output for output in outputs.of_step(mill, source)}
    listed = [found.get(rank) for rank in range(source.total)]
    if is_sharded(source.define):
        return listed
    return listed[0] if listed else None


def _condition_holds(step: StepRow) -> bool:
    """Evaluate the step's `when` condition."""
    if step.define.when is None:
        return True
    try:
        return render.truth(step.define.when, context_of(step, step.define, 0))
    except render.TemplateError as error:
        raise CannotOpen(f"its condition cannot be evaluated: {error}") from error


def _with_tasks(mill: Mill, step: StepRow) -> StepRow:
    """Return the step with the number of its tasks, and their items if a template gives them."""
    spec = step.define
    known = total(spec)
    if known is not None:
        return step.evolve(total=known)
    try:
        if isinstance(spec.items, str):
            items = _items(render.evaluate(spec.items, context_of(step, spec, 0)))
            return _with_context(step, items=items).evolve(total=len(items))
        wanted = spec.sharding
        if isinstance(wanted, str):
            wanted = _count(render.evaluate(wanted, context_of(step, spec, 0)))
    except render.TemplateError as error:
        raise CannotOpen(f"its number of tasks cannot be evaluated: {error}") from error
    if not spec.partition:
        return step.evolve(total=wanted)
    from shardmill.engine.files import split  # few steps need it

    parts, cuts = split.store_cuts(mill, step, spec, wanted)
    return _with_context(step, split=cuts).evolve(total=parts)


def _items(found: Any) -> list[Any]:
    if not isinstance(found, list):
        raise CannotOpen(f"its items must be a list, not {kind(found)}")
    if len(found) > MAX_ITEMS:
        raise CannotOpen(f"it has {len(found)} items; the maximum is {MAX_ITEMS}")
    return found


def _count(found: Any) -> int:
    if isinstance(found, str) and found.isdecimal() and len(found) <= _INTEGER_DIGITS:
        found = int(found)
    if type(found) is not int or not 0 <= found <= MAX_SHARDS:
        raise CannotOpen(
            f"its sharding must be an integer from 0 to {MAX_SHARDS}, not {render.as_text(found)[:64]}"
        )
    return found
