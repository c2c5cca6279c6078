"""`--watch`: show a list again and again until Ctrl-C."""

from __future__ import annotations

import io
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import redirect_stdout
from typing import Annotated, TypeVar

import typer

from shardmill.cli import output, terminal
from shardmill.cli.exits import INTERRUPTED

T = TypeVar("T")

Watch = Annotated[
    bool,
    typer.Option("--watch", help="Update the list every 2 seconds until Ctrl-C."),
]
INTERVAL_SECONDS = 2.0
_HOME_AND_CLEAR = "\033[H\033[J"


def show_list(
    read: Callable[[], Iterable[T]],
    columns: Mapping[str, Callable[[T], object]],
    as_json: bool,
    watch: bool,
) -> None:
    """Print a list once, or, with `watch`, whenever it has changed.

    On a terminal a new list replaces the old one. In a pipe it follows after an empty line; with `as_json`,
    each list is one line of JSON.
    """
    if not watch:
        output.listing(read(), columns, as_json)
        return
    try:
        _repeat(
            lambda: output.json_line(_plain(read())) if as_json else output.listing(read(), columns, False)
        )
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def _repeat(show: Callable[[], None]) -> None:
    from shardmill.client.errors import Unreachable

    shown, failing = "", False
    while True:
        try:
            frame = _printed(show)
        except Unreachable as error:  # the API may come back; the last output stays
            if not shown:
                raise
            if not failing:
                output.message(f"{error.detail}; trying again")
            failing = True
        else:
            if frame != shown or failing:
                _write(frame, first=not shown)
            shown, failing = frame, False
        time.sleep(INTERVAL_SECONDS)


def _write(frame: str, first: bool) -> None:
    if terminal.can_redraw(sys.stdout):
        lines, room = frame.splitlines(), shutil.get_terminal_size().lines - 1
        if len(lines) > room:
            lines = [*lines[: room - 1], f"… {len(lines) - room + 1} more"]
        frame = _HOME_AND_CLEAR + "\n".join(lines) + "\n"
    elif not first and not frame.startswith("["):
        frame = "\n" + frame
    sys.stdout.write(frame)
    sys.stdout.flush()


class _Frame(io.StringIO):
    """Output that is kept, formatted as for the stream that it is going to be written to."""

    def __init__(self, target: object) -> None:
        super().__init__()
        self._terminal = bool(getattr(target, "isatty", lambda: False)())

    def isatty(self) -> bool:
        return self._terminal


def _printed(show: Callable[[], None]) -> str:
    frame = _Frame(sys.stdout)
    with redirect_stdout(frame):
        show()
    return frame.getvalue()


def _plain(items: Iterable[T]) -> list[object]:
    return [item.model_dump(mode="json") if hasattr(item, "model_dump") else item for item in items]
