"""The templates of a step and the names in them; for documents in canonical spelling, valid or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from shardmill.model.templates import render

if TYPE_CHECKING:
    from shardmill.model.fault import Path

FILES = ("inputs", "outputs", "predata")
BEFORE_TASKS = ("when", "sharding", "items", "packConf")
"""The fields that are evaluated before a step has tasks."""

_COMMAND = ("name", "args", "argsArray", "dockerimage", "environ")
_OUTPUT, _ITEM = "steps.", "item"


def templates(step: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    """The path and text of each template of a step, in its content, files, command and environment."""
    left: list[tuple[Path, Any]] = [((name,), step[name]) for name in ("content", *FILES) if name in step]
    left += [((name,), step[name]) for name in BEFORE_TASKS if isinstance(step.get(name), (str, dict))]
    command = step.get("command")
    if isinstance(command, dict):
        left += [(("command", name), command[name]) for name in _COMMAND if name in command]
    while left:
        path, value = left.pop()
        if isinstance(value, str):
            yield path, value
        elif isinstance(value, list):
            left.extend(((*path, at), each) for at, each in enumerate(value))
        elif isinstance(value, dict):
            left.extend(((*path, key), each) for key, each in value.items())


def steps_read_by(step: Mapping[str, Any]) -> set[str]:
    """The steps whose outputs, states or counts a step reads, in templates or as files."""
    named = {name.split(".")[1] for name in _names(step) if name.startswith(_OUTPUT)}
    files = (each for kind in FILES for each in step.get(kind) or ())
    return named | {each["origin"] for each in files if each.get("origin")}


def waits_for_values(step: Mapping[str, Any]) -> bool:
    """Whether templates of a step can be rendered only after other steps have ended."""
    return any(name == _ITEM or name.startswith(_OUTPUT) for name in _names(step))


def _names(step: Mapping[str, Any]) -> Iterator[str]:
    for _, text in templates(step):
        if "{{" in text:
            yield from render.names(text)
