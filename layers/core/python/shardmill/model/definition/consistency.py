"""Rules between the fields of a definition; for documents in canonical spelling, with valid values or not."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from itertools import islice
from typing import Any

from shardmill.model.blocks import MAX_SHARDS
from shardmill.model.definition.content_fields import image_fault
from shardmill.model.definition.field_types import type_of
from shardmill.model.definition.file_arguments import file_names, unknown_names
from shardmill.model.definition.graph import cycles
from shardmill.model.definition.references import BEFORE_TASKS, FILES, templates
from shardmill.model.definition.step_types import content_faults
from shardmill.model.definition.task_count import pack_count
from shardmill.model.fault import Path, did_you_mean
from shardmill.model.files import has_wildcard
from shardmill.model.secrets.secret import MASK
from shardmill.model.templates import render

Found = tuple[Path, str, str]

_NO_TASK_YET = ("shard.", "pack.", "task.", "item")
_PRIVATE = ("command", "environ", "private")
_WAITS_FOR = ("dependentSteps", "doneSteps")
_SOURCES = ("url", "s3", "origin")
_PRIVATE_TEMPLATE = "a {{ }} contains an unknown name; use a parameter for literal braces"
_MAX_STEP_HINTS = 20
_MAX_NAMED = 20


def step_faults(
    step: dict[str, Any], job_params: frozenset[str], upstream: Container[str] = ()
) -> Iterator[Found]:
    """The faults of one step, with paths relative to it; `upstream`: the steps that end before it."""
    yield from _type_faults(step)
    yield from _item_faults(step)
    yield from _shard_faults(step)
    yield from _template_faults(step, job_params, upstream)
    yield from _private_faults(step)
    yield from _file_faults(step)
    yield from _argument_faults(step)


def _type_faults(step: dict[str, Any]) -> Iterator[Found]:
    kind, content, command = type_of(step), step.get("content"), step.get("command")
    if kind == "command" and command is None:
        yield ("command",), "missing-field", "is required for a step of type command"
    elif kind == "docker" and not content and command is None:
        yield ("content",), "missing-field", "a step of type docker requires content or command"
    elif isinstance(kind, str) and kind not in ("noop", "command", "docker") and not content:
        yield ("content",), "missing-field", f"is required for a step of type {kind[:64]}"
    elif content is not None and command is not None:
        yield ("content",), "both-spellings", "a step has either content or command; give only one of them"
    elif isinstance(command, dict):
        image = command.get("dockerimage")
        if kind == "docker" and image is None:
            yield ("command", "dockerimage"), "missing-field", "is required for a step of type docker"
        elif wrong := image_fault(image):
            yield ("command", "dockerimage"), "bad-value", wrong
    elif isinstance(kind, str) and isinstance(content, (str, dict)):
        for path, code, message in content_faults(kind, content):
            yield ("content", *path), code, message


def _item_faults(step: dict[str, Any]) -> Iterator[Found]:
    for name in ("sharding", "packConf", "partition") if step.get("items") is not None else ():
        if step.get(name) is not None:
            yield (
                (name,),
                "both-spellings",
                "cannot be combined with items, which give the step one task each",
            )


def _shard_faults(step: dict[str, Any]) -> Iterator[Found]:
    pack = step.get("packConf")
    if step.get("stepType", "SHARD") != "PACK":
        if pack is not None:
            yield ("packConf",), "both-spellings", "is only for stepType PACK"
        items = step.get("items")
        yield from _start_faults(step, len(items) if isinstance(items, list) else step.get("sharding", 1))
        return
    if "sharding" in step:
        yield ("sharding",), "both-spellings", "is only for stepType SHARD"
    if pack is None:
        yield ("packConf",), "missing-field", "is required for a step of stepType PACK"
        return
    numbers = [pack.get(name) for name in ("size", "start", "end")] if isinstance(pack, dict) else []
    size, start, end = [each if type(each) is int else None for each in numbers] or [None] * 3
    if size is None or start is None or end is None or size < 1:
        return
    if start > end:
        yield ("packConf", "end"), "out-of-range", f"must not be less than start ({start})"
    elif (tasks := pack_count(size, start, end)) > MAX_SHARDS:
        yield ("packConf",), "out-of-range", f"results in {tasks} tasks; a step can have at most {MAX_SHARDS}"
    else:
        yield from _start_faults(step, tasks)


def _start_faults(step: dict[str, Any], shards: object) -> Iterator[Found]:
    first = step.get("startShardId", 0)
    if step.get("partition") is not None or isinstance(step.get("items"), str):
        return  # the number of tasks is not known yet
    if type(first) is int and type(shards) is int and 0 < shards <= first:
        text = f"leaves out all tasks: their indexes are 0 to {shards - 1}"
        yield ("startShardId",), "no-tasks", text


def _template_faults(
    step: dict[str, Any], job_params: frozenset[str], upstream: Container[str]
) -> Iterator[Found]:
    params = step.get("params")
    known = job_params.union(params) if isinstance(params, dict) else job_params
    item = step.get("items") is not None
    for path, text in templates(step):
        wrong = render.check(text, known, steps=upstream, item=item)
        for message in wrong:
            yield path, "bad-template", _PRIVATE_TEMPLATE if path[:3] == _PRIVATE else message
        if step.get("stepType") != "PACK" and any(name.startswith("pack.") for name in render.names(text)):
            yield (
                path,
                "bad-template",
                "pack.start and pack.end are only available in a step of stepType PACK",
            )
        if path[0] in BEFORE_TASKS and not wrong:
            yield from _before_tasks(path, text)


def _before_tasks(path: Path, text: str) -> Iterator[Found]:
    if not render.is_single_placeholder(text):
        yield path, "bad-template", "must be a single {{ … }} expression without other text"
    named = [name for name in render.names(text) if name.startswith(_NO_TASK_YET)]
    if named:
        yield (
            path,
            "bad-template",
            f"{named[0]} is only available in tasks; this is evaluated before there are any",
        )


def _private_faults(step: dict[str, Any]) -> Iterator[Found]:
    at: Any = step
    for name in _PRIVATE:
        at = at.get(name) if isinstance(at, dict) else None
    for name, value in at.items() if isinstance(at, dict) else ():
        if value == MASK:
            message = (
                "is the mask that answers show, and no saved command has the value; give the value itself"
            )
            yield (*_PRIVATE, name), "masked-value", message


def _files(step: dict[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    for kind in FILES:
        files = step.get(kind)
        for at, each in enumerate(files if isinstance(files, list) else ()):
            if isinstance(each, dict):
                yield (kind, at), each


def _file_faults(step: dict[str, Any]) -> Iterator[Found]:
    names = set()
    read: dict[str, Path] = {}
    for path, each in _files(step):
        given = [name for name in _SOURCES if each.get(name) is not None]
        for name in given[1:]:
            yield (
                (*path, name),
                "both-spellings",
                f"cannot be combined with {given[0]!r}; give only one source",
            )
        yield from _name_faults(path, each)
        own = each.get("name")
        if path[0] == "outputs" or not isinstance(own, str):
            continue
        if not has_wildcard(own) and (first := read.setdefault(own, path)) != path:
            text = f"is already the name of {first[0]}/{first[1]}; use another name"
            yield (*path, "name"), "duplicate-file", text
        if path[0] == "inputs":
            names.add(own)
    partition = step.get("partition")
    wanted = partition.get("input") if isinstance(partition, dict) else None
    if isinstance(wanted, str) and wanted not in names:
        yield ("partition", "input"), "unknown-input", "must be the name of one of the step's inputs"


def _argument_faults(step: dict[str, Any]) -> Iterator[Found]:
    """References `@name` in the arguments of a command to files that the step does not have."""
    command = step.get("command")
    if not isinstance(command, dict):
        return
    for path, text in templates({"command": command}):
        if path[1] in ("args", "argsArray") and "@" in text:
            arguments = text if path[1] == "args" else [text]
            for code, message in _reference_faults(step, arguments):
                yield path, code, message


def _reference_faults(step: dict[str, Any], arguments: str | list[str]) -> Iterator[tuple[str, str]]:
    readable, outputs = file_names(step, ("inputs", "predata")), file_names(step, ("outputs",))
    unknown = dict.fromkeys(unknown_names(arguments, [*readable, *outputs]))
    for name in islice(unknown, _MAX_NAMED):
        hint = did_you_mean(name, [*readable, *outputs]) or "; write @@ for a plain @"
        yield "unknown-file", f"@{name[:64]} is not a file of this step{hint}"
    written = (name for name in unknown_names(arguments, readable) if has_wildcard(name))
    for name in islice(dict.fromkeys(name for name in written if name not in unknown), _MAX_NAMED):
        yield "bad-value", f"@{name[:64]} is a pattern of outputs, which do not exist yet; name one file"


def _name_faults(path: Path, file: dict[str, Any]) -> Iterator[Found]:
    name, origin, url = file.get("name"), file.get("origin"), file.get("url")
    if path[0] == "outputs":
        for field in ("origin", "pattern"):
            if file.get(field) is not None:
                yield (*path, field), "bad-value", "is only for files that a step reads"
        return
    if file.get("pattern") is not None and origin is None:
        yield (*path, "pattern"), "missing-field", "requires origin, the step whose files it selects"
    elif isinstance(name, str) and has_wildcard(name) and (origin is None or file.get("pattern")):
        yield (
            (*path, "name"),
            "bad-file-name",
            "a pattern requires origin, and cannot be combined with the field pattern",
        )
    if isinstance(url, str) and "{{" not in url and not url.lower().startswith(("http://", "https://")):
        yield (*path, "url"), "bad-value", "must be an http or https URL"


def graph_faults(steps: Sequence[dict[str, Any]]) -> Iterator[Found]:
    """Faults between steps: names, dependencies, phases, origins and cycles."""
    number: dict[str, int] = {}
    for at, step in enumerate(steps):
        name = step.get("stepName")
        if not isinstance(name, str):
            continue
        if number.setdefault(name, at) != at:
            yield ("steps", at, "stepName"), "duplicate-step", f"is already the name of step {number[name]}"
    waits_for: list[list[int]] = [[] for _ in steps]
    hints = _MAX_STEP_HINTS
    for at, path, name in _named_steps(steps):
        if name not in number:
            hint = did_you_mean(name, number) if hints > 0 else ""
            hints -= 1
            yield path, "unknown-step", f"there is no step {name[:64]!r}{hint}"
        elif number[name] == at and path[2] not in _WAITS_FOR:
            yield path, "unknown-step", "a step cannot be the origin of its own input"
        else:
            waits_for[at].append(number[name])
            if _phase(steps[number[name]]) > _phase(steps[at]):
                yield path, "later-phase", f"step {name!r} is in a later phase, which starts after this one"
    for cycle in cycles(waits_for):
        named = [steps[at]["stepName"] for at in cycle]
        message = f"steps wait for each other: {_cycle(named)}"
        field = next((each for each in _WAITS_FOR if steps[cycle[0]].get(each)), _WAITS_FOR[0])
        yield ("steps", cycle[0], field), "cyclic-steps", message


def upstream_of(steps: Sequence[dict[str, Any]], at: int) -> set[str]:
    """The names of the steps that end before a step starts: its ancestors, and the steps of earlier
    phases."""
    before: dict[str, list[str]] = {}
    for each, _, name in _named_steps(steps):
        before.setdefault(steps[each].get("stepName", ""), []).append(name)
    own = _phase(steps[at])
    found = {step.get("stepName", "") for step in steps if _phase(step) < own}
    left = list(before.get(steps[at].get("stepName", ""), ()))
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += before.get(name, ())
    return found - {steps[at].get("stepName", "")}


def _named_steps(steps: Sequence[dict[str, Any]]) -> Iterator[tuple[int, Path, str]]:
    """Each reference from a step to another: the index of the step, the path, and the name."""
    for at, step in enumerate(steps):
        for field in _WAITS_FOR:
            named = step.get(field)
            for place, name in enumerate(named if isinstance(named, list) else ()):
                if isinstance(name, str):
                    yield at, ("steps", at, field, place), name
        for path, each in _files(step):
            if path[0] != "outputs" and isinstance(each.get("origin"), str):
                yield at, ("steps", at, *path, "origin"), each["origin"]


def _phase(step: dict[str, Any]) -> int:
    phase = step.get("phase", 0)
    return phase if isinstance(phase, int) else 0


def _cycle(names: list[str]) -> str:
    if len(names) > _MAX_NAMED:
        names = [*names[:_MAX_NAMED], f"({len(names) - _MAX_NAMED} more)"]
    return " -> ".join([*names, names[0]])
