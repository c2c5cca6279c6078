"""Overrides: changes to the steps of a definition for one Job, by a request or a schedule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, Field

from shardmill.model.base import Limit, Model, Name, Params, Retries, Seconds, Whole
from shardmill.model.blocks import MAX_SHARDS
from shardmill.model.definition.canonical import Canonical, given
from shardmill.model.definition.consistency import Found, step_faults, upstream_of
from shardmill.model.definition.field_types import NumberOfShards, PackNumber, PackSize
from shardmill.model.definition.fields import MAX_GROUPS, JobDefine, StepDefine
from shardmill.model.definition.spelling import fields_in, settings
from shardmill.model.fault import Fault, Path, as_sent, did_you_mean, fault

_MAX_HINTS = 20
_NOT_SETTINGS = ("step_name", "params", "ignore", "pack_conf")


class PackOverride(Model):
    """The changed fields of a packConf."""

    size: PackSize | None = None
    start: PackNumber | None = None
    end: PackNumber | None = None


class StepOverride(Model):
    """Changes to one step; fields that are not given keep the values of the definition."""

    step_name: Name
    params: Params = Field(default_factory=dict)
    ignore: bool = Field(default=False, description="the step is SKIPPED, and the steps after it run")
    sharding: NumberOfShards | None = None
    start_shard_id: Annotated[Whole, Field(ge=0)] | None = None
    pack_conf: PackOverride | None = None
    max_task_count: int | None = Field(default=None, ge=1, le=MAX_SHARDS)
    can_fail: bool | None = None
    worker_groups: list[Name] = Field(default_factory=list, max_length=MAX_GROUPS)
    priority: Whole | None = None
    failed_retries: Retries | None = None
    failed_interval: Seconds | None = None
    failed_backoff: float | None = Field(default=None, ge=1, le=100)
    reject_retries: Retries | None = None
    reject_interval: Seconds | None = None
    lost_retries: Retries | None = None
    timeout_seconds: Limit | None = None


OTHER_SPELLINGS: dict[type[BaseModel], tuple[str, ...]] = {
    StepOverride: ("name", "workerGroup", "shardConf", "startPackId", "traits")
}
_FIELDS = fields_in(StepOverride).union(OTHER_SPELLINGS[StepOverride])


def canonical_overrides(result: Canonical, sent: Any) -> Any:
    """Convert the `steps` of a request to the canonical spelling."""
    if not isinstance(sent, list):
        return sent
    return [_canonical(result, each, ("steps", at)) for at, each in enumerate(sent)]


def _canonical(result: Canonical, sent: Any, path: Path) -> Any:
    if not isinstance(sent, dict):
        return sent
    step = given(sent, _FIELDS)
    settings(result, step, path)
    result.traits(step, path, switches=True)
    if step.pop("ignorable", None) is not None:
        place = result.origins.get((*path, "ignorable"), (*path, "ignorable"))
        result.fault(place, "bad-value", "only the definition says whether a step is ignorable")
    return step


def changes(step: StepDefine, override: StepOverride) -> dict[str, Any]:
    """The fields of a step that an override changes, except its parameters."""
    found = {
        name: value
        for name in StepOverride.model_fields
        if name not in _NOT_SETTINGS and (value := getattr(override, name)) not in (None, [])
    }
    if override.pack_conf and step.pack_conf:
        found["pack_conf"] = step.pack_conf.model_copy(
            update=override.pack_conf.model_dump(exclude_none=True, by_alias=False)
        )
    return found


def override_faults(canonical: Canonical, define: JobDefine, job_params: frozenset[str]) -> Iterator[Fault]:
    """The faults of overrides in canonical spelling that depend on the definition."""
    named = {step.step_name: step for step in define.steps}
    seen: set[str] = set()
    hints = _MAX_HINTS
    steps = canonical.document.get("steps")
    for at, override in enumerate(steps if isinstance(steps, list) else ()):
        name = override.get("stepName") if isinstance(override, dict) else None
        if not isinstance(name, str):
            continue
        path = as_sent(("steps", at, "stepName"), canonical.origins)
        if name not in named:
            hint = did_you_mean(name, named) if hints > 0 else ""
            hints -= 1
            yield fault(path, "unknown-step", f"{define.job_name!r} has no step {name[:64]!r}{hint}")
        elif name in seen:
            yield fault(path, "duplicate-step", "is given twice")
        else:
            for place, code, message in _faults(override, named[name], define, job_params):
                yield fault(as_sent(("steps", at, *place), canonical.origins), code, message)
        seen.add(name)


def _faults(
    override: Mapping[str, Any], step: StepDefine, define: JobDefine, job_params: frozenset[str]
) -> Iterator[Found]:
    """The faults that an override adds to a step."""
    if override.get("ignore") is True and step.ignorable is False:
        yield ("ignore",), "not-ignorable", f"the definition does not allow ignoring step {step.step_name!r}"
    kept = ("stepName", "params", "ignore")
    changed = {name: value for name, value in override.items() if name not in kept}
    if not changed:
        return
    before = _document(step)
    after = {**before, **changed}
    if isinstance(changed.get("packConf"), dict) and "packConf" in before:
        after["packConf"] = {**before["packConf"], **changed["packConf"]}
    documents = [_document(each) for each in define.steps]
    upstream = upstream_of(documents, define.steps.index(step))
    known = set(step_faults(before, job_params, upstream))
    for path, code, message in step_faults(after, job_params, upstream):
        if (path, code, message) not in known:
            yield path if path[0] in changed else (), code, message


def _document(step: StepDefine) -> dict[str, Any]:
    """A step in its canonical spelling."""
    return step.model_dump(mode="json", exclude_unset=True, exclude_none=True)
