"""The programs that a worker has, and the command and environment to run one of them for a task."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from shardmill.model.definition.command import Command
from shardmill.model.worker import Lease
from shardmill.worker.outcome import AttemptOutcome, InvalidTask, ProcessExit, TaskRejected
from shardmill.worker.task import environment
from shardmill.worker.task.workdir import TaskDir

_VARIABLE = re.compile(r"\$\{(\w+)\}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Programs:
    """Paths, or names on PATH; `python_path` is where python tasks find their modules."""

    shell: str = "/bin/sh"
    python: str = sys.executable
    python_path: tuple[str, ...] = ()
    java: str = "java"
    hive: str = "hive"
    hadoop: str = "hadoop"
    docker: str = "docker"

    def path(self, name: Literal["java", "hive", "hadoop", "docker"]) -> str:
        """The absolute path of a program. Raises TaskRejected if this worker does not have it."""
        program: str = getattr(self, name)
        found = shutil.which(program)
        if not found:
            missing = program if program == name else f"{name} ({program})"
            raise TaskRejected(
                f"this worker has no {missing}: add it to PATH, or start the worker with --{name} PATH"
            )
        return os.path.abspath(found)  # the program runs in another folder


@dataclass(frozen=True, slots=True)
class ProgramContext:
    """A task, its folder, and the programs and hosts that it may use."""

    lease: Lease
    task_dir: TaskDir
    programs: Programs
    allow_hosts: Sequence[str] = ()

    def environ(self, *settings: str, **more: str) -> dict[str, str]:
        """Inherited variables, those named in `settings` included, and the variables of the task."""
        inherited = environment.inherited(self.task_dir.user, settings)
        return {**inherited, **self.task_environ(self.task_dir.channel), **more}

    def task_environ(self, channel: PurePath) -> dict[str, str]:
        return environment.of_task(self.lease, channel)


@dataclass(frozen=True, slots=True)
class Program:
    """`cleanup` is a command that ends processes that the program started outside of its session.

    `explain` may replace the outcome of an exit code by a better one, given the end of stderr.
    """

    argv: Sequence[str]
    environ: Mapping[str, str]
    as_worker: bool = False
    cleanup: Sequence[str] = ()
    explain: Callable[[ProcessExit, str], AttemptOutcome | None] | None = None


def program_arguments(context: ProgramContext, command: Command) -> list[str]:
    """The arguments of a command with the variables that it uses. Raises InvalidTask."""
    words = arguments(command)
    if not command.expand_variables:
        return words
    # Without parameters: in the text of a shell, their values would be code.
    params = context.lease.params
    known = {name: value for name, value in context.environ().items() if name not in params}
    return [_VARIABLE.sub(lambda found: known.get(found[1], ""), word) for word in words]


def arguments(command: Command) -> list[str]:
    """The arguments of a command. Raises InvalidTask if `args` cannot be split."""
    if command.args_array is not None:
        return command.args_array
    try:
        return shlex.split(command.args or "")
    except ValueError as error:
        raise InvalidTask(f"cannot split the args of command {command.name!r}: {error}") from error
