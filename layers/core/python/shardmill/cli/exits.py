"""How a command ends: its exit code, and one sentence for whatever went wrong."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Iterator
from typing import IO, Any

import typer
from typer.core import TyperGroup

from shardmill.cli.output import message
from shardmill.cli.render.hints import in_commands

OTHER = 1
USAGE = 2
NOT_FOUND = 3
JOB_FAILED = 4
TIMED_OUT = 5
INTERRUPTED = 130
PIPE_CLOSED = 141


class Commands(TyperGroup):
    """The commands, each of which ends with an exit code of ours and never with a traceback."""

    def invoke(self, ctx: Any) -> Any:
        with orderly_end():
            return super().invoke(ctx)


@contextlib.contextmanager
def orderly_end() -> Iterator[None]:
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        _forget(sys.stdout)
        _forget(sys.stderr)
        raise typer.Exit(PIPE_CLOSED) from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except ModuleNotFoundError as error:
        message(f"this command needs {error.name}; install it with pip install 'shardmill[cli,local]'")
        raise typer.Exit(OTHER) from None
    except Exception as error:
        if _is_for_typer(error):
            raise
        raise typer.Exit(tell(error)) from None


def _is_for_typer(error: Exception) -> bool:
    """Usage errors and planned exits: those that typer itself knows how to show."""
    return isinstance(error, (typer.Exit, typer.Abort, typer.TyperException))


def tell(error: Exception) -> int:
    """Say what went wrong, and below it every fault with its place; gives the exit code."""
    from shardmill.client import BadName, NotFound, ShardmillError, WaitTimedOut

    if not isinstance(error, ShardmillError):
        place = traceback.extract_tb(error.__traceback__)[-1]
        message(
            f"unexpected {type(error).__name__}: {error} (in {place.name}, line {place.lineno} of "
            f"{os.path.basename(place.filename)}); this is a defect of Shardmill: please report it"
        )
        return OTHER
    message(in_commands(error.code, error.detail))
    for fault in error.faults:
        message(f"  {fault.pointer or '(document)'}: {in_commands(fault.code, fault.message)}")
    codes = {NotFound: NOT_FOUND, BadName: USAGE, WaitTimedOut: TIMED_OUT}
    return next((code for kind, code in codes.items() if isinstance(error, kind)), OTHER)


def _forget(stream: IO[str]) -> None:
    """Nobody reads any more: whatever is still buffered may go nowhere, silently."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
