"""Which program a task means: one function a step type."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from shardmill.model.worker import Lease

_CALL = str(Path(__file__).with_name("call.py"))


class Unrunnable(Exception):
    """This worker does not run such tasks."""


class Faulty(Exception):
    """The task does not say properly what to run."""


@dataclass(frozen=True, slots=True)
class Programs:
    """The programs of this worker; `python_path` is where it looks for the modules of python tasks."""

    shell: str = "/bin/sh"
    python: str = sys.executable
    python_path: tuple[str, ...] = ()


def arguments(lease: Lease, programs: Programs) -> list[str]:
    """The program of a task and its arguments; raises Unrunnable or Faulty."""
    make = _TYPES.get(lease.type)
    if not make:
        known = ", ".join(["noop", *_TYPES])
        raise Unrunnable(f"this worker does not run tasks of type {lease.type}, only {known}")
    return make(lease, programs)


def extra_environ(lease: Lease, programs: Programs) -> dict[str, str]:
    """What the program of a task needs in its environment besides what the task gives it."""
    if lease.type != "python":
        return {}
    given = lease.environ.get("PYTHONPATH")
    return {"PYTHONPATH": ":".join([*([given] if given else []), *programs.python_path])}


def _shell(lease: Lease, programs: Programs) -> list[str]:
    return [programs.shell, "-c", _text(lease)]


def _python(lease: Lease, programs: Programs) -> list[str]:
    function = _text(lease).strip()
    module, colon, name = function.partition(":")
    if not (colon and module and name):
        raise Faulty(f"the content of a python task must be module:function, not {function[:200]!r}")
    return [programs.python, "-P", _CALL, function]


def _command(lease: Lease, _: Programs) -> list[str]:
    command = lease.command
    if not command:
        raise Faulty("a task of type command needs a command with a name")
    if command.args_array is not None:
        return [command.name, *command.args_array]
    try:
        return [command.name, *shlex.split(command.args or "")]
    except ValueError as error:
        raise Faulty(f"the args of command {command.name!r} cannot be split into words: {error}") from error


def _text(lease: Lease) -> str:
    if not isinstance(lease.content, str):
        raise Faulty(f"the content of a {lease.type} task must be text")
    return lease.content


_TYPES: dict[str, Callable[[Lease, Programs], list[str]]] = {
    "shell": _shell,
    "python": _python,
    "command": _command,
}
