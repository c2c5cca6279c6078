"""Exit codes, and how errors become messages and exit codes."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Iterator
from typing import IO, Any

import typer
from typer.core import TyperGroup

from shardmill.cli.hints import with_commands
from shardmill.cli.output import message
from shardmill.cli.terminal import add_display_options, reset_display

OTHER = 1
USAGE = 2
NOT_FOUND = 3
JOB_FAILED = 4
TIMED_OUT = 5
INTERRUPTED = 130
PIPE_CLOSED = 141


class CommandGroup(TyperGroup):
    """A group whose commands end with a documented exit code, never with a traceback."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        add_display_options(self)

    def make_context(self, *arguments: Any, **settings: Any) -> Any:
        reset_display()
        return super().make_context(*arguments, **settings)

    def invoke(self, ctx: Any) -> Any:
        with handle_errors():
            return super().invoke(ctx)


@contextlib.contextmanager
def handle_errors() -> Iterator[None]:
    """Turn every exception into a message and an exit code; usage errors are left to typer."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output(sys.stdout)
        _discard_output(sys.stderr)
        raise typer.Exit(PIPE_CLOSED) from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except ModuleNotFoundError as error:
        message(f"this command needs {error.name}; install it with pip install 'shardmill[cli,local]'")
        raise typer.Exit(OTHER) from None
    except typer.BadParameter as error:
        error.message = _plain(error.message)
        raise
    except Exception as error:
        if isinstance(error, (typer.Exit, typer.Abort, typer.TyperException)):
            raise
        raise typer.Exit(report_error(error)) from None


def _plain(text: str) -> str:
    """A message of pydantic about an option without its technical words."""
    return text.removeprefix("Value error, ").replace("Input should be", "it must be")


def report_error(error: Exception) -> int:
    """Print the error and each of its faults; return the exit code."""
    from shardmill.client.errors import BadName, NotFound, ShardmillError, WaitTimedOut

    if not isinstance(error, ShardmillError):
        frame = traceback.extract_tb(error.__traceback__)[-1]
        message(
            f"unexpected {type(error).__name__}: {error} (in {frame.name}, line {frame.lineno} of "
            f"{os.path.basename(frame.filename)}); this is a bug in Shardmill: please report it"
        )
        return OTHER
    message(with_commands(error.code, error.detail))
    for fault in error.faults:
        message(f"  {fault.pointer or '(document)'}: {with_commands(fault.code, fault.message)}")
    codes = {NotFound: NOT_FOUND, BadName: USAGE, WaitTimedOut: TIMED_OUT}
    return next((code for kind, code in codes.items() if isinstance(error, kind)), OTHER)


def _discard_output(stream: IO[str]) -> None:
    """Point the stream to /dev/null, so that flushing its buffer at exit does not fail again."""
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
