"""Open a step: evaluate its condition, compute how many tasks it has, and make its blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from shardmill.engine.access.limits import limit_reached
from shardmill.engine.errors import CannotOpen
from shardmill.engine.files import outputs
from shardmill.engine.mill import Mill
from shardmill.engine.running.close_step import StillOpen, fail_step, job_and_step, step_row
from shardmill.engine.tasks import fair_share, messages
from shardmill.engine.tasks.park import park_step
from shardmill.engine.template_context import context_of, resolve_pack
from shardmill.model.blocks import MAX_ITEMS, MAX_SENT_AT_OPENING, MAX_SHARDS, block_count, ranges, set_count
from shardmill.model.definition.references import BEFORE_TASKS, templates
from shardmill.model.definition.task_count import is_sharded, pack_count, shard_count, total
from shardmill.model.states import JobState, StepState
from shardmill.model.templates import render
from shardmill.model.templates.expression import kind
from shardmill.store.access.usage import LimitExceeded
from shardmill.store.codec import to_json
from shardmill.store.rows import JobRow, StepRow

if TYPE_CHECKING:
    from shardmill.model.fault import Path

MAX_VALUE_BYTES = 200_000
MAX_STEP_BYTES = 330_000  # of an item of 400 KB; the rest is for attributes that are added later
MAX_OUTPUTS_READ = 100
_INTEGER_DIGITS = 7
_OPEN_TRIES = 6
IGNORED = "ignored by the request"

Opened = dict[str, Any]
"""The result for the step's execution: ranges of tasks to enqueue, their queues, and the sets of blocks."""


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
    if step.state is not StepState.WAITING or step.settings.partition:
        return None
    sources = _referenced_rows(mill, step)
    values = _referenced_values(templates(step.spec))
    if sum(source.total for source in sources if "output" in values[source.name]) > MAX_OUTPUTS_READ:
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
    routes = messages.routes_of(mill, step, now)
    if step.window > MAX_SENT_AT_OPENING:
        return opened | {"ranges": ranges(step.window), "queues": [route.encode() for route in routes]}
    messages.send_range(mill, routes, step.key, step.gen, range(step.window))
    return opened


def _suspended_since(mill: Mill, job: JobRow, step: StepRow) -> bool:
    """Return whether the Job was suspended while the step opened: suspend skips steps not open yet."""
    present = mill.jobs.get(job.id) if step.state is StepState.READY and not step.started_time else job
    return present is not None and present.state is JobState.SUSPENDED


def _nothing_to_enqueue(step: StepRow) -> Opened:
    sets = [] if step.state.ended else list(range(set_count(step.total)))
    return {"ranges": [], "sets": sets, "queues": [], "gen": step.gen}


def _open(mill: Mill, step: StepRow, sources: Iterable[StepRow], now: int) -> StepRow:
    """Open a step, or skip it if it is ignored or its condition is false.

    Return its present row if it changed meanwhile.

    `sources`: the steps that its templates reference.
    """
    step = _with_upstream_values(mill, step, sources)
    if step.ignored or not _condition_holds(step):
        notes = IGNORED if step.ignored else f"its condition is false: {step.settings.when}"
        changes: dict[str, Any] = {"completed_time": now, "notes": notes, "same_gen": True}
        skipped = mill.jobs.move_step(step, StepState.SKIPPED, now=now, **changes)
        return skipped or step_row(mill, step.job_id, step.run, step.index)
    if step.total:  # a rerun has set it, with the tasks that it keeps
        context = _with_task_values(step).context_text
        opened = mill.jobs.move_step(step, StepState.READY, now=now, same_gen=True, context=context)
        return opened or step_row(mill, step.job_id, step.run, step.index)
    step = _with_task_values(_with_tasks(mill, step))
    if not step.counted and mill.settings.limits.any and total(step.settings) is None:
        _count_tasks_found(mill, step)
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


def _count_tasks_found(mill: Mill, step: StepRow) -> None:
    """Count the tasks of a step whose number was not known when its Job was submitted."""
    job = mill.jobs.get(step.job_id)
    if not job or job.counted_tasks is None or not step.total:
        return
    try:
        mill.usage.claim_tasks(job, step, step.total)
    except LimitExceeded as error:
        raise CannotOpen(str(limit_reached(mill, error, None))) from error


def _referenced_rows(mill: Mill, step: StepRow) -> list[StepRow]:
    """Return the rows of the steps that the templates of a step reference."""
    named = _referenced_values(templates(step.spec))
    if not named:
        return []
    refs = step.context["refs"]
    return list(mill.jobs.steps_by_key((step.job_id, step.run, refs[name]) for name in named).values())


def _with_upstream_values(mill: Mill, step: StepRow, sources: Iterable[StepRow]) -> StepRow:
    """Return the step with the outputs, states and counts that its templates reference in its context."""
    wanted = _referenced_values(templates(step.spec))
    found = {
        source.name: {value: _VALUES[value](mill, source) for value in wanted[source.name]}
        for source in sources
    }
    return _with_context(step, steps=found) if found else step


def _with_context(step: StepRow, **values: Any) -> StepRow:
    return step.evolve(context={**step.context, **values})


def _with_task_values(step: StepRow) -> StepRow:
    """Drop the values that no task template references; raise CannotOpen if the rest does not fit."""
    kept = _referenced_values(
        (path, text) for path, text in templates(step.spec) if path[0] not in BEFORE_TASKS
    )
    known = step.context.get("steps", {})
    found = {
        name: {value: known[name][value] for value in values if value in known[name]}
        for name, values in kept.items()
        if name in known
    }
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


def _referenced_values(texts: Iterable[tuple[Path, str]]) -> dict[str, set[str]]:
    """Return by step which of its values the templates reference: output, state, counts."""
    names = (name for _, text in texts if "{{" in text for name in render.names(text))
    found: dict[str, set[str]] = {}
    for name in names:
        if name.startswith("steps."):
            _, step_name, value = name.split(".")
            found.setdefault(step_name, set()).add(value)
    return found


def _output_of(mill: Mill, source: StepRow) -> Any:
    """Return the output of a step; of a sharded one a list in shard order, None where a task has none."""
    found = {output.rank: output.stored.output for output in outputs.of_step(mill, source)}
    listed = [found.get(rank) for rank in range(source.total)]
    if is_sharded(source.settings):
        return listed
    return listed[0] if listed else None


def _counts_of(_: Mill, source: StepRow) -> dict[str, int]:
    """Return how many tasks of a step that has ended are in each state."""
    not_done = source.total - source.success - source.failed
    killed = not_done if source.state is StepState.KILLED else source.killed
    waiting = 0 if source.total else total(source.settings) or 0
    return dict(zip(render.COUNTED, (source.success, source.failed, killed, waiting), strict=True))


_VALUES: dict[str, Callable[[Mill, StepRow], Any]] = {
    "output": _output_of,
    "state": lambda _, source: source.state.value,
    "counts": _counts_of,
}


def _condition_holds(step: StepRow) -> bool:
    """Evaluate the step's `when` condition."""
    settings = step.settings
    if settings.when is None:
        return True
    try:
        return render.truth(settings.when, context_of(step, settings, 0))
    except render.TemplateError as error:
        raise CannotOpen(f"its condition cannot be evaluated: {error}") from error


def _with_tasks(mill: Mill, step: StepRow) -> StepRow:
    """Return the step with the number of its tasks, and their items if a template gives them."""
    if not step.settings.partition:
        return count_tasks(step)
    from shardmill.engine.files import split  # few steps need it

    parts, cuts = split.store_cuts(mill, step, step.define, _wanted_shards(step))
    return _with_total(_with_context(step, split=cuts), parts)


def count_tasks(step: StepRow) -> StepRow:
    """Return a step whose input is not split, with the number of its tasks. Raises CannotOpen."""
    spec = step.settings
    known = shard_count(spec)
    if known is not None:
        return _with_total(step, known)
    try:
        if spec.step_type == "PACK":
            numbers = resolve_pack(step, spec)
            return _with_total(_with_context(step, pack=numbers), pack_count(*numbers))
        if isinstance(spec.items, str):
            items = _items(render.evaluate(spec.items, context_of(step, spec, 0)))
            return _with_total(_with_context(step, items=items), len(items))
    except render.TemplateError as error:
        raise _not_evaluated(error) from error
    return _with_total(step, _wanted_shards(step))


def _wanted_shards(step: StepRow) -> int:
    spec = step.settings
    if not isinstance(spec.sharding, str):
        return spec.sharding
    try:
        return _count(render.evaluate(spec.sharding, context_of(step, spec, 0)))
    except render.TemplateError as error:
        raise _not_evaluated(error) from error


def _not_evaluated(error: render.TemplateError) -> CannotOpen:
    return CannotOpen(f"its number of tasks cannot be evaluated: {error}")


def _with_total(step: StepRow, shards: int) -> StepRow:
    """Return the step with the number of its tasks: the shards that its startShardId does not leave out."""
    first = step.settings.start_shard_id
    if first and first >= shards:
        raise CannotOpen(f"its startShardId, {first}, leaves out all of its {shards} shards")
    return step.evolve(total=shards - first)


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
