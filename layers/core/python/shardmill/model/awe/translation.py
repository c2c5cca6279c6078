"""Translate one AWE task to a step of a definition."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from shardmill.model.awe.faults import Faults
from shardmill.model.awe.files import (
    CHUNK_MB,
    CHUNKED,
    INDEXES,
    AweFile,
    OwnNode,
    as_input,
    as_output,
    from_origin,
    with_node_of_url,
)
from shardmill.model.awe.names import task_name
from shardmill.model.awe.placeholders import literal
from shardmill.model.awe.tasks import AweTask, Rewired, ancestors_of, skippable
from shardmill.model.definition.file_arguments import escape_unknown
from shardmill.model.templates.render import TemplateError, render

MAX_PRIVATE_BYTES = 8_000
"""API Gateway passes 10,240 bytes of headers."""
DEFAULT_INDEX = "chunkrecord"
_IMAGE_FIELDS = ("Dockerimage", "dockerimage", "DockerPull", "dockerPull")
_NEVER = "{{ 1 == 2 }}"


@dataclass(frozen=True, slots=True)
class StoreOf:
    """The node store of a deployment: its address for messages, its bucket, and how it finds a node."""

    address: str
    bucket: str
    own_node: OwnNode


def step_of(
    task: AweTask, tasks: Mapping[str, AweTask], rewired: Rewired, store: StoreOf, faults: Faults
) -> dict[str, Any]:
    """The step of a task, in the spelling of definitions."""
    inputs = [_resolved(file, rewired) for file in task.inputs.values()]
    predata = [_resolved(file, rewired) for file in task.predata.values()]
    step: dict[str, Any] = {
        "stepName": task.step,
        "command": _command(task, faults),
        "sharding": 1,
        "failFast": True,
        "runIfSkipped": True,
        "dependentSteps": [tasks[each].step for each in ancestors_of(task, [*inputs, *predata])],
        "inputs": [_input(file, tasks, store) for file in inputs],
        "outputs": [as_output(file) for file in task.outputs.values()],
        "predata": [_input(file, tasks, store) for file in predata],
    }
    if task.userattr:
        step["userattr"] = task.userattr
    if task.id != task_name(task.step):
        step["taskid"] = task.id
    if skippable(task):
        return step | {"when": _NEVER} | _unsplit(task)
    return step | (_split(task, {file.name: file for file in inputs}, store, faults) or _unsplit(task))


def _resolved(file: AweFile, rewired: Rewired) -> AweFile:
    stands_for = rewired.get((file.origin, file.name))
    if not stands_for:
        return file
    source = replace(stands_for, name=file.name, where=file.where)
    return replace(source, upload_name=stands_for.name) if source.origin else source


def _input(file: AweFile, tasks: Mapping[str, AweTask], store: StoreOf) -> dict[str, Any]:
    if not file.origin:
        return as_input(file, store.own_node, store.bucket)
    producer = tasks[file.origin]
    made = producer.outputs.get(file.name) or producer.outputs[file.upload_name]
    return from_origin(file, producer.step, made.stored_as)


def _command(task: AweTask, faults: Faults) -> dict[str, Any]:
    given, where = task.command, f"{task.where}.cmd"
    command: dict[str, Any] = {"name": literal(faults.text(given.get("name"), f"{where}.name").strip())}
    files = [*task.inputs, *task.predata, *task.outputs]
    words = given.get("args_array")
    if isinstance(words, list) and words:
        texts = [literal(faults.text(each, f"{where}.args_array")) for each in words]
        command["argsArray"] = [escape_unknown(each, files, split=False) for each in texts]
    elif args := faults.text(given.get("args"), f"{where}.args"):
        command["args"] = escape_unknown(literal(args), files, split=True)
        _check_quoting(command["args"], f"{where}.args", faults)
    if any("${" in each for each in (command.get("args", ""), *command.get("argsArray", ()))):
        command["expandVariables"] = True
    if description := faults.text(given.get("description"), f"{where}.description"):
        command["description"] = description
    image = next((given[name] for name in _IMAGE_FIELDS if given.get(name)), None)
    if image is not None:
        command["dockerimage"] = faults.text(image, f"{where}.dockerimage")
    environ = faults.object(given.get("environ"), f"{where}.environ")
    variables = {
        kind: {
            name: literal(text)
            for name, text in faults.texts_of(environ.get(kind), f"{where}.environ.{kind}").items()
        }
        for kind in ("public", "private")
    }
    if len(json.dumps(variables["private"])) > MAX_PRIVATE_BYTES:
        faults.add(
            f"{where}.environ.private",
            f"has more than {MAX_PRIVATE_BYTES} bytes, and clients get it in a header; use an input file",
        )
    if any(variables.values()):
        command["environ"] = variables
    return command


def _check_quoting(args: str, where: str, faults: Faults) -> None:
    """Find `{{` in places where its text cannot be inserted into the words of a command."""
    try:
        render(args, {}, quote=True)
    except TemplateError:
        faults.add(where, "{{ cannot stand inside ${…}, $(…), `…` or after a backslash; use args_array")


def _split(task: AweTask, inputs: Mapping[str, AweFile], store: StoreOf, faults: Faults) -> dict[str, Any]:
    """How the task is divided into workunits: by an index of one input, if there is one to divide."""
    if task.total_work <= 1 and not task.max_work_size and not task.max_part_mb:
        return {}
    file = inputs.get(task.part_input) or (next(iter(inputs.values())) if len(inputs) == 1 else None)
    if not file:
        if task.part_input:
            named = ", ".join(map(repr, islice(inputs, 20))) or "none"
            text = f"the task has no input {task.part_input[:256]!r}; its inputs: {named}"
            faults.add(f"{task.where}.partinfo.input", text)
        return {}
    index = task.part_index or DEFAULT_INDEX
    if index not in INDEXES:
        faults.add(f"{task.where}.partinfo.index", f"must be one of {', '.join(INDEXES)}, not {index!r}")
        return {}
    located = with_node_of_url(file)
    if not file.origin and not (located.node and store.own_node(located.host, located.node)):
        faults.add(
            file.where,
            f"cannot be split, because it is not in the node store of this server; upload it to "
            f"{store.address}/node first, or set totalwork to 1 and leave maxworksize out",
        )
        return {}
    partition: dict[str, Any] = {"input": file.name, "index": INDEXES[index], "byUnits": True}
    if index in CHUNKED:
        partition["unitMb"] = CHUNK_MB
    if INDEXES[index] == "record" and task.part_options:
        partition["options"] = task.part_options
    if limit := task.max_work_size or (task.max_part_mb if index in CHUNKED else 0):
        partition["maxUnits"] = limit
    return {"sharding": task.total_work, "partition": partition}


def _unsplit(task: AweTask) -> dict[str, Any]:
    """What the document says about a split of a task that is not split: documents answer it."""
    if not task.has_parts:
        return {}
    parts = {
        "input": task.part_input,
        "index": task.part_index,
        "maxpartsize_mb": task.max_part_mb,
        "options": task.part_options,
    }
    return {"partinfo": parts}
