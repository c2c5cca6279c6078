"""The programs that a worker has, and what it takes to run one of them for a task."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from shardmill.model.definition.command import Command
from shardmill.model.worker import Lease
from shardmill.worker.task import environment
from shardmill.worker.task.outcome import Ended, Faulty, Finding, Unrunnable
from shardmill.worker.task.workdir import Place


@dataclass(frozen=True, slots=True)
class Programs:
    """Each a path, or a name to be found on PATH; `python_path`: where python tasks find their modules."""

    shell: str = "/bin/sh"
    python: str = sys.executable
    python_path: tuple[str, ...] = ()
    java: str = "java"
    hive: str = "hive"
    hadoop: str = "hadoop"
    docker: str = "docker"

    def path(self, name: Literal["java", "hive", "hadoop", "docker"]) -> str:
        """Raises Unrunnable if there is no such program here."""
        wanted: str = getattr(self, name)
        found = shutil.which(wanted)
        if not found:
            missing = wanted if wanted == name else f"{name} ({wanted})"
            raise Unrunnable(
                f"this worker has no {missing}: put it on its PATH, or start the worker with --{name} PATH"
            )
        return os.path.abspath(found)  # the task's program runs elsewhere


@dataclass(frozen=True, slots=True)
class Order:
    """A task, where it runs, and with what."""

    lease: Lease
    place: Place
    programs: Programs
    allow_hosts: Sequence[str] = ()

    def environ(self, *settings: str, **more: str) -> dict[str, str]:
        """What a program inherits, the `settings` of its kind too, and what the task gives."""
        return {**environment.inherited(self.place.user, settings), **self.given(self.place.told), **more}

    def given(self, told: PurePath) -> dict[str, str]:
        return environment.given(self.lease, told)


@dataclass(frozen=True, slots=True)
class Program:
    """`undo` ends what it runs outside of its session; `explain` may know better than its exit code."""

    words: Sequence[str]
    environ: Mapping[str, str]
    as_worker: bool = False
    undo: Sequence[str] = ()
    explain: Callable[[Ended, str], Finding | None] | None = None


def arguments(command: Command) -> list[str]:
    """Raises Faulty if they are a text that cannot be split."""
    if command.args_array is not None:
        return command.args_array
    try:
        return shlex.split(command.args or "")
    except ValueError as error:
        raise Faulty(f"the args of command {command.name!r} cannot be split into words: {error}") from error
