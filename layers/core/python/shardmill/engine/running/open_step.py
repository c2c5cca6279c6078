"""What steps before it give a step: outputs, for its texts, its condition and the number of its tasks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shardmill.engine.errors import CannotOpen
from shardmill.engine.files import outputs
from shardmill.engine.mill import Mill
from shardmill.engine.template_context import context_of
from shardmill.model.blocks import MAX_SHARDS
from shardmill.model.definition.fields import MAX_ITEMS, StepDefine, is_sharded, total
from shardmill.model.definition.references import BEFORE_TASKS, templates
from shardmill.model.fault import Path
from shardmill.model.templates import render
from shardmill.model.templates.expression import kind
from shardmill.store.codec import to_json
from shardmill.store.rows import StepRow

MAX_VALUE_BYTES = 200_000
MAX_STEP_BYTES = 380_000  # of a row of 400 KB, beside what the step becomes
_INTEGER_DIGITS = 7


def gather(mill: Mill, step: StepRow) -> None:
    """Put into a step's context the outputs that its texts name."""
    named = _named(templates(step.spec))
    if not named:
        return
    refs = step.context["refs"]
    sources = mill.jobs.steps_by_key((step.job_id, step.run, refs[name]) for name in named)
    step.context["steps"] = {source.name: {"output": output_of(mill, source)} for source in sources.values()}


def keep_for_tasks(step: StepRow) -> None:
    """Keep of what was gathered only what the texts of tasks name; raises if that does not fit into a row."""
    kept = _named((path, text) for path, text in templates(step.spec) if path[0] not in BEFORE_TASKS)
    found = {name: each for name, each in step.context.pop("steps", {}).items() if name in kept}
    step.context |= {"steps": found} if found else {}
    size, spec = len(step.context_text.encode()), len(to_json(step.spec).encode())
    room = min(MAX_VALUE_BYTES, MAX_STEP_BYTES - spec)
    if size > room:
        raise CannotOpen(
            f"the outputs and items that its tasks need have {size} bytes; {max(room, 0)} fit beside its own "
            f"{spec}, larger data belongs into files"
        )


def _named(texts: Iterable[tuple[Path, str]]) -> set[str]:
    """The steps whose outputs are named."""
    names = (name for _, text in texts if "{{" in text for name in render.names(text))
    return {name.split(".")[1] for name in names if name.startswith("steps.")}


def output_of(mill: Mill, source: StepRow) -> Any:
    """What a step handed on: of one with shards a list in their order, null where there is nothing."""
    found = {left.rank: left.kept.output for left in outputs.of_step(mill, source)}
    listed = [found.get(rank) for rank in range(source.total)]
    if is_sharded(StepDefine.model_validate(source.spec)):
        return listed
    return listed[0] if listed else None


def wanted(step: StepRow, spec: StepDefine) -> bool:
    """Whether a step is to run, by its own condition."""
    if spec.when is None:
        return True
    try:
        return render.truth(spec.when, context_of(step, spec, 0))
    except render.TemplateError as error:
        raise CannotOpen(f"its condition cannot be told: {error}") from error


def settle_total(mill: Mill, step: StepRow, spec: StepDefine) -> int:
    """How many tasks a step has, now that all it depends on has ended; its items are in its context then."""
    known = total(spec)
    if known is not None:
        return known
    try:
        if isinstance(spec.items, str):
            return _items(step, render.evaluate(spec.items, context_of(step, spec, 0)))
        wanted = spec.sharding
        if isinstance(wanted, str):
            wanted = _count(render.evaluate(wanted, context_of(step, spec, 0)))
    except render.TemplateError as error:
        raise CannotOpen(f"the number of its tasks cannot be told: {error}") from error
    if not spec.partition:
        return wanted
    from shardmill.engine.files import split  # few steps need it

    return split.settle(mill, step, spec, wanted)


def _items(step: StepRow, found: Any) -> int:
    if not isinstance(found, list):
        raise CannotOpen(f"its items are no list, but {kind(found)}")
    if len(found) > MAX_ITEMS:
        raise CannotOpen(f"it has {len(found)} items; {MAX_ITEMS} are possible")
    step.context["items"] = found
    return len(found)


def _count(found: Any) -> int:
    if isinstance(found, str) and found.isdecimal() and len(found) <= _INTEGER_DIGITS:
        found = int(found)
    if type(found) is not int or not 0 <= found <= MAX_SHARDS:
        raise CannotOpen(
            f"its sharding is no number from 0 to {MAX_SHARDS}, but {render.as_text(found)[:64]}"
        )
    return found
