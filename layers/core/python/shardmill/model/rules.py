"""The rules of a definition that lie between its fields: on canonical spelling, but on any values at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from shardmill.model import template
from shardmill.model.blocks import MAX_SHARDS
from shardmill.model.command import MASK
from shardmill.model.contents import content_faults, image_fault
from shardmill.model.definition import pack_count, type_of
from shardmill.model.fault import Path, did_you_mean
from shardmill.model.graph import cycles

Found = tuple[Path, str, str]

_FILES = ("inputs", "outputs", "predata")
_COMMAND_TEMPLATES = ("name", "args", "argsArray", "dockerimage", "environ")
_PRIVATE = ("command", "environ", "private")
_SOURCES = ("url", "s3", "origin")
_PRIVATE_TEMPLATE = "its {{ }} names nothing that is known; literal braces can come from a parameter"
_MAX_STEP_HINTS = 20
_MAX_NAMED = 20


def step_faults(step: dict[str, Any], job_params: frozenset[str]) -> Iterator[Found]:
    """What is wrong inside one step; paths begin in the step."""
    yield from _type_faults(step)
    yield from _shard_faults(step)
    yield from _template_faults(step, job_params)
    yield from _private_faults(step)
    yield from _file_faults(step)


def _type_faults(step: dict[str, Any]) -> Iterator[Found]:
    kind, content, command = type_of(step), step.get("content"), step.get("command")
    if kind == "command" and command is None:
        yield ("command",), "missing-field", "a step of type command needs a command"
    elif kind == "docker" and not content and command is None:
        yield ("content",), "missing-field", "a step of type docker needs a content or a command"
    elif isinstance(kind, str) and kind not in ("noop", "command", "docker") and not content:
        yield ("content",), "missing-field", f"a step of type {kind[:64]} needs its content"
    elif content is not None and command is not None:
        yield ("content",), "both-spellings", "a step has either a content or a command; give one of them"
    elif isinstance(command, dict):
        image = command.get("dockerimage")
        if kind == "docker" and image is None:
            yield ("command", "dockerimage"), "missing-field", "a step of type docker needs the image"
        elif wrong := image_fault(image):
            yield ("command", "dockerimage"), "bad-value", wrong
    elif isinstance(kind, str) and isinstance(content, (str, dict)):
        for path, code, message in content_faults(kind, content):
            yield ("content", *path), code, message


def _shard_faults(step: dict[str, Any]) -> Iterator[Found]:
    pack = step.get("packConf")
    if step.get("stepType", "SHARD") != "PACK":
        if pack is not None:
            yield ("packConf",), "both-spellings", "is for stepType PACK; a step is either SHARD or PACK"
        return
    for name in ("sharding", "startShardId"):
        if name in step:
            yield (name,), "both-spellings", "is for stepType SHARD; a step is either SHARD or PACK"
    if pack is None:
        yield ("packConf",), "missing-field", "a step of stepType PACK needs its packConf"
        return
    numbers = [pack.get(name) for name in ("size", "start", "end")] if isinstance(pack, dict) else []
    size, start, end = [each if type(each) is int else None for each in numbers] or [None] * 3
    if size is None or start is None or end is None or size < 1:
        return
    if start > end:
        yield ("packConf", "end"), "out-of-range", f"must not be below start, {start}"
    elif (tasks := pack_count(size, start, end)) > MAX_SHARDS:
        yield ("packConf",), "out-of-range", f"makes {tasks} tasks; a step has {MAX_SHARDS} at most"


def _template_faults(step: dict[str, Any], job_params: frozenset[str]) -> Iterator[Found]:
    params = step.get("params")
    known = job_params.union(params) if isinstance(params, dict) else job_params
    for path, text in _templates(step):
        for message in template.check(text, known):
            yield path, "bad-template", _PRIVATE_TEMPLATE if path[:3] == _PRIVATE else message
        if step.get("stepType") != "PACK" and any(name.startswith("pack.") for name in template.names(text)):
            yield path, "bad-template", "pack.start and pack.end are known in a step of stepType PACK only"


def _templates(step: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    """The texts of a step that are templates: its content, its files, its command with its environment."""
    left: list[tuple[Path, Any]] = [((name,), step[name]) for name in ("content", *_FILES) if name in step]
    command = step.get("command")
    if isinstance(command, dict):
        left += [(("command", name), command[name]) for name in _COMMAND_TEMPLATES if name in command]
    while left:
        path, value = left.pop()
        if isinstance(value, str):
            yield path, value
        elif isinstance(value, list):
            left.extend(((*path, at), each) for at, each in enumerate(value))
        elif isinstance(value, dict):
            left.extend(((*path, key), each) for key, each in value.items())


def _private_faults(step: dict[str, Any]) -> Iterator[Found]:
    at: Any = step
    for name in _PRIVATE:
        at = at.get(name) if isinstance(at, dict) else None
    for name, value in at.items() if isinstance(at, dict) else ():
        if value == MASK:
            message = "is the mask that answers show; give the value itself"
            yield (*_PRIVATE, name), "masked-value", message


def _files(step: dict[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    for kind in _FILES:
        files = step.get(kind)
        for at, each in enumerate(files if isinstance(files, list) else ()):
            if isinstance(each, dict):
                yield (kind, at), each


def _file_faults(step: dict[str, Any]) -> Iterator[Found]:
    names = set()
    for path, each in _files(step):
        given = [name for name in _SOURCES if each.get(name) is not None]
        for name in given[1:]:
            yield (
                (*path, name),
                "both-spellings",
                f"the file comes from {given[0]!r} already; give one of them",
            )
        if path[0] == "inputs" and isinstance(each.get("name"), str):
            names.add(each["name"])
    partition = step.get("partition")
    wanted = partition.get("input") if isinstance(partition, dict) else None
    if isinstance(wanted, str) and wanted not in names:
        yield ("partition", "input"), "unknown-input", "must be the name of one of the step's inputs"


def graph_faults(steps: Sequence[dict[str, Any]]) -> Iterator[Found]:
    """What is wrong between steps: names, dependencies, phases, origins, circles."""
    number: dict[str, int] = {}
    for at, step in enumerate(steps):
        name = step.get("stepName")
        if not isinstance(name, str):
            continue
        if number.setdefault(name, at) != at:
            yield ("steps", at, "stepName"), "duplicate-step", f"is the name of step {number[name]} already"
    waits_for: list[list[int]] = [[] for _ in steps]
    hints = _MAX_STEP_HINTS
    for at, path, name in _named_steps(steps):
        if name not in number:
            hint = did_you_mean(name, number) if hints > 0 else ""
            hints -= 1
            yield path, "unknown-step", f"there is no step {name[:64]!r}{hint}"
        elif path[2] == "dependentSteps":
            waits_for[at].append(number[name])
            if _phase(steps[number[name]]) > _phase(steps[at]):
                yield path, "later-phase", f"step {name!r} is of a later phase, which starts after this one"
        elif number[name] == at:
            yield path, "unknown-step", "a step cannot be the origin of its own input"
    for circle in cycles(waits_for):
        named = [steps[at]["stepName"] for at in circle]
        message = f"steps wait for each other: {_circle(named)}"
        yield ("steps", circle[0], "dependentSteps"), "cyclic-steps", message


def _named_steps(steps: Sequence[dict[str, Any]]) -> Iterator[tuple[int, Path, str]]:
    """Wherever a step names another: its index, the path there, and the name."""
    for at, step in enumerate(steps):
        named = step.get("dependentSteps")
        for place, name in enumerate(named if isinstance(named, list) else ()):
            if isinstance(name, str):
                yield at, ("steps", at, "dependentSteps", place), name
        for path, each in _files(step):
            if path[0] != "outputs" and isinstance(each.get("origin"), str):
                yield at, ("steps", at, *path, "origin"), each["origin"]


def _phase(step: dict[str, Any]) -> int:
    phase = step.get("phase", 0)
    return phase if isinstance(phase, int) else 0


def _circle(names: list[str]) -> str:
    if len(names) > _MAX_NAMED:
        names = [*names[:_MAX_NAMED], f"({len(names) - _MAX_NAMED} more)"]
    return " -> ".join([*names, names[0]])
