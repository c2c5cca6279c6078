"""Converts the accepted spellings of a definition to the canonical one; finds only faults of the spelling."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from shardmill.model.base import Model
from shardmill.model.definition.answers import SavedDefine
from shardmill.model.definition.canonical import Canonical, given
from shardmill.model.definition.fields import JobDefine, StepDefine
from shardmill.model.fault import Path

MAIN_STEP = "main"
SHARD_CONF = {"shard": "sharding", "startShardId": "startShardId", "maxTaskCount": "maxTaskCount"}
PACK_CONF = {"startPackId": "startShardId", "maxTaskCount": "maxTaskCount"}
"""The fields of packConf that are fields of the step in the canonical spelling."""
_DEPENDENCY = {"steps": "dependentSteps", "doneSteps": "doneSteps", "phase": "phase"}
_STEP_TYPES = ("SIMPLE", "SHARD", "PACK")
_NOT_SIMPLE = ("sharding", "startShardId", "packConf", "items", "partition")
_SHARD_DEFAULTS = {"sharding": 1, "startShardId": 0}
_MAIN_FIELDS = ("type", "content")

OTHER_SPELLINGS: dict[type[BaseModel], tuple[str, ...]] = {
    JobDefine: ("workerGroup", "duration", *_MAIN_FIELDS),
    StepDefine: ("name", "workerGroup", "dependentStep", "dependency", "shardConf", "startPackId", "traits"),
}


def fields_in(model: type[Model]) -> frozenset[str]:
    """The names of a model's fields in documents."""
    return frozenset(info.alias or name for name, info in model.model_fields.items())


_JOB_FIELDS = fields_in(JobDefine)
_STEP_FIELDS = fields_in(StepDefine)
# Ignored, so that an answer can be edited and sent back.
ADDED_BY_ANSWERS = fields_in(SavedDefine) - _JOB_FIELDS


def canonical(sent: dict[str, Any], path_name: str | None) -> Canonical:
    result = Canonical()
    job = given(sent, _JOB_FIELDS.union(OTHER_SPELLINGS[JobDefine]))
    for name in ADDED_BY_ANSWERS:
        job.pop(name, None)
    if path_name is not None and job.setdefault("jobName", path_name) != path_name:
        result.fault(("jobName",), "name-mismatch", f"differs from the name in the URL, {path_name!r}")
    result.one_to_list(job, (), "workerGroup", "workerGroups")
    duration_to_deadline(result, job)
    _main_step(result, job)
    if isinstance(job.get("dependencies"), list):
        job["dependencies"] = [
            {"jobName": each} if isinstance(each, str) else each for each in job["dependencies"]
        ]
    if isinstance(job.get("steps"), list):
        job["steps"] = [_step(result, each, ("steps", at)) for at, each in enumerate(job["steps"])]
    result.document = job
    return result


def duration_to_deadline(result: Canonical, job: dict[str, Any]) -> None:
    """Convert `duration`, which is in milliseconds, to `deadlineSeconds`."""
    if "duration" not in job:
        return
    duration = job.pop("duration")
    if type(duration) is not int or duration < 1:
        result.fault(("duration",), "bad-value", "must be a positive number of milliseconds")
    else:
        result.move(job, (), ("duration",), "deadlineSeconds", -(-duration // 1000))


def _main_step(result: Canonical, job: dict[str, Any]) -> None:
    """Convert a job with type and content but no steps to one step."""
    main = {name: job.pop(name) for name in _MAIN_FIELDS if name in job}
    if not main:
        return
    if "steps" in job:
        for name in main:
            text = f"{name!r} is only for a job without steps; move it into a step"
            result.fault((name,), "both-spellings", text)
        return
    job["steps"] = [{"stepName": MAIN_STEP, **main}]
    result.origins[("steps", 0)] = ()


def _step(result: Canonical, sent: Any, path: Path) -> Any:
    if not isinstance(sent, dict):
        return sent
    step = given(sent, _STEP_FIELDS.union(OTHER_SPELLINGS[StepDefine]))
    settings(result, step, path)
    result.traits(step, path)
    _dependencies(result, step, path)
    if isinstance(step.get("stepType"), str) and step["stepType"] not in _STEP_TYPES:
        result.fault((*path, "stepType"), "bad-value", f"must be one of {', '.join(_STEP_TYPES)}")
        del step["stepType"]
    if isinstance(step.get("packConf"), dict):
        step.setdefault("stepType", "PACK")
    if step.get("stepType") == "SIMPLE":
        _simple(result, step, path)
    if step.get("stepType") == "SHARD":
        del step["stepType"]  # the default
    if "stepType" in step or "items" in step:
        _drop_defaults(step)
    return step


def settings(result: Canonical, step: dict[str, Any], path: Path) -> None:
    """Convert the fields that a step of a definition and a step of a request have in common."""
    result.rename(step, path, "name", "stepName")
    result.one_to_list(step, path, "workerGroup", "workerGroups")
    result.spread(step, path, "shardConf", SHARD_CONF)
    result.rename(step, path, "startPackId", "startShardId")
    pack = step.get("packConf")
    if isinstance(pack, dict):
        step["packConf"] = {name: value for name, value in pack.items() if name not in PACK_CONF}
        for name, new in PACK_CONF.items():
            result.move(step, path, ("packConf", name), new, pack.get(name))


def _dependencies(result: Canonical, step: dict[str, Any], path: Path) -> None:
    """Combine the spellings of the steps that a step waits for."""
    if "dependentStep" in step:
        place: Path = ("dependentStep",)
        result.extend(step, path, place, "dependentSteps", {place: step.pop("dependentStep")})
    for name, value in result.fields_of(step, path, "dependency", _DEPENDENCY):
        place = ("dependency", name)
        if name == "phase":
            result.move(step, path, place, name, value)
        elif isinstance(value, list):
            listed: dict[Path, Any] = {(*place, at): each for at, each in enumerate(value)}
            result.extend(step, path, place, _DEPENDENCY[name], listed)
        elif value is not None:
            result.fault((*path, *place), "bad-type", "must be a list")


def _simple(result: Canonical, step: dict[str, Any], path: Path) -> None:
    """Convert stepType SIMPLE, which has one task."""
    del step["stepType"]
    _drop_defaults(step)
    for name in _NOT_SIMPLE:
        if name in step:
            place = result.origins.get((*path, name), (*path, name))
            result.fault(place, "both-spellings", "is not for stepType SIMPLE, which has one task")
            del step[name]


def _drop_defaults(step: dict[str, Any]) -> None:
    """Drop what answers show also where another value would be a contradiction."""
    for name, default in _SHARD_DEFAULTS.items():
        if type(step.get(name)) is int and step[name] == default:
            del step[name]
