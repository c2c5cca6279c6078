"""The words of a command's arguments."""

from __future__ import annotations

import shlex

from shardmill.model.command import Command
from shardmill.worker.findings import Faulty


def arguments(command: Command) -> list[str]:
    """Raises Faulty if they are a text that cannot be split."""
    if command.args_array is not None:
        return command.args_array
    try:
        return shlex.split(command.args or "")
    except ValueError as error:
        raise Faulty(f"the args of command {command.name!r} cannot be split into words: {error}") from error
