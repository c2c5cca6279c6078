"""Converts the accepted spellings of a definition to the canonical one.

Only faults of the spelling itself are found here. The original path of every value that moves is recorded, so
that faults found later point into the document as it was sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from shardmill.model.base import Model
from shardmill.model.definition.fields import JobDefine, SavedDefine, StepDefine
from shardmill.model.fault import MAX_HINTS, Fault, Path, did_you_mean, fault

MAIN_STEP = "main"
SHARD_CONF = {"shard": "sharding", "startShardId": "startShardId", "maxTaskCount": "maxTaskCount"}
_SHARD_DEFAULTS = {"sharding": 1, "startShardId": 0}
_MAIN_FIELDS = ("type", "content")

OTHER_SPELLINGS: dict[type[BaseModel], tuple[str, ...]] = {
    JobDefine: ("workerGroup", *_MAIN_FIELDS),
    StepDefine: ("workerGroup", "dependentStep", "dependency", "shardConf"),
}


def _fields(model: type[Model]) -> frozenset[str]:
    return frozenset(info.alias or name for name, info in model.model_fields.items())


_JOB_FIELDS = _fields(JobDefine)
_STEP_FIELDS = _fields(StepDefine)
# Ignored, so that an answer can be edited and sent back.
ADDED_BY_ANSWERS = _fields(SavedDefine) - _JOB_FIELDS


@dataclass
class Canonical:
    """A document in canonical spelling, the original paths of its values, and the faults of its spelling."""

    document: dict[str, Any] = field(default_factory=dict)
    origins: dict[Path, Path] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)


def canonical(sent: dict[str, Any], path_name: str | None) -> Canonical:
    result = Canonical()
    job = _given(sent, _JOB_FIELDS.union(OTHER_SPELLINGS[JobDefine]))
    for name in ADDED_BY_ANSWERS:
        job.pop(name, None)
    if path_name is not None and job.setdefault("jobName", path_name) != path_name:
        result.faults.append(
            fault(("jobName",), "name-mismatch", f"differs from the name in the URL, {path_name!r}")
        )
    _one_to_list(result, job, (), "workerGroup", "workerGroups")
    _main_step(result, job)
    if isinstance(job.get("dependencies"), list):
        job["dependencies"] = [
            {"jobName": each} if isinstance(each, str) else each for each in job["dependencies"]
        ]
    if isinstance(job.get("steps"), list):
        job["steps"] = [_step(result, each, ("steps", at)) for at, each in enumerate(job["steps"])]
    result.document = job
    return result


def _given(sent: dict[str, Any], known: Iterable[str]) -> dict[str, Any]:
    """Drop known fields that are null."""
    known = frozenset(known)
    return {name: value for name, value in sent.items() if value is not None or name not in known}


def _main_step(result: Canonical, job: dict[str, Any]) -> None:
    """Convert a job with type and content but no steps (seed 001) to one step."""
    given = {name: job.pop(name) for name in _MAIN_FIELDS if name in job}
    if not given:
        return
    if "steps" in job:
        for name in given:
            result.faults.append(
                fault(
                    (name,),
                    "both-spellings",
                    f"{name!r} is only for a job without steps; move it into a step",
                )
            )
        return
    job["steps"] = [{"stepName": MAIN_STEP, **given}]
    result.origins[("steps", 0)] = ()


def _step(result: Canonical, sent: Any, path: Path) -> Any:
    if not isinstance(sent, dict):
        return sent
    step = _given(sent, _STEP_FIELDS.union(OTHER_SPELLINGS[StepDefine]))
    _one_to_list(result, step, path, "workerGroup", "workerGroups")
    _one_to_list(result, step, path, "dependentStep", "dependentSteps")
    _spread(result, step, path, "dependency", {"steps": "dependentSteps"})
    _spread(result, step, path, "shardConf", SHARD_CONF)
    pack = step.get("packConf")
    if isinstance(pack, dict):
        step.setdefault("stepType", "PACK")
        if "maxTaskCount" in pack:
            step["packConf"] = {name: value for name, value in pack.items() if name != "maxTaskCount"}
            _move(result, step, path, ("packConf", "maxTaskCount"), "maxTaskCount", pack["maxTaskCount"])
    if step.get("stepType") == "SHARD":
        del step["stepType"]  # the default
    if "stepType" in step or "items" in step:
        for name, default in _SHARD_DEFAULTS.items():
            if type(step.get(name)) is int and step[name] == default:
                del step[name]  # answers show it also where another value would be a contradiction
    return step


def _spread(result: Canonical, target: dict[str, Any], path: Path, conf: str, moves: dict[str, str]) -> None:
    """Move the fields of the object `conf` into `target`."""
    if conf not in target:
        return
    values = target.pop(conf)
    if not isinstance(values, dict):
        result.faults.append(fault((*path, conf), "bad-type", "must be an object"))
        return
    for name, value in values.items():
        if name in moves:
            _move(result, target, path, (conf, name), moves[name], value)
        else:
            hint = did_you_mean(name, moves) if len(result.faults) < MAX_HINTS else ""
            result.faults.append(
                fault((*path, conf, name), "unknown-field", f"unknown field {name[:64]!r}{hint}")
            )


def _one_to_list(result: Canonical, target: dict[str, Any], path: Path, one: str, many: str) -> None:
    if one in target and _move(result, target, path, (one,), many, [target.pop(one)]):
        result.origins[(*path, many, 0)] = (*path, one)


def _move(result: Canonical, target: dict[str, Any], path: Path, old: Path, new: str, value: Any) -> bool:
    if value is None:
        return False
    if new in target:
        first = ".".join(map(str, result.origins.get((*path, new), (*path, new))[len(path) :]))
        result.faults.append(
            fault(
                (*path, *old), "both-spellings", f"has the same meaning as {first!r}; give only one of them"
            )
        )
        return False
    target[new] = value
    result.origins[(*path, new)] = (*path, *old)
    return True
