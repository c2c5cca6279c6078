"""The abilities of the terminal: colour, width and time zone, and the options that change them."""

from __future__ import annotations

import os
import shutil
import unicodedata
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer
from typer.main import get_command

if TYPE_CHECKING:
    from rich.console import Console

ELLIPSIS = "…"


@dataclass
class Display:
    """The display options of the running command."""

    utc: bool = False
    no_color: bool = False


display = Display()


def coloured(stream: IO[str]) -> bool:
    """Whether to use colour: not with --no-color or NO_COLOR, else with FORCE_COLOR or on a terminal."""
    if display.no_color or os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def console(stream: IO[str]) -> Console:
    """A console of rich with the same rules for colour."""
    from rich.console import Console

    return Console(file=stream, no_color=not coloured(stream), highlight=False)


def columns(stream: IO[str]) -> int | None:
    """The width of the terminal, or None if the output goes to a file or a pipe."""
    return shutil.get_terminal_size().columns if stream.isatty() else None


def can_redraw(stream: IO[str]) -> bool:
    """Whether the cursor can be moved, so that output can be replaced."""
    return stream.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "")


def time_text(moment: datetime) -> str:
    """A time as RFC 3339 with seconds, in the user's time zone, or in UTC with --utc."""
    local = local_time(moment)
    return local.isoformat(timespec="seconds").replace("+00:00", "Z")


def short_time_text(moment: datetime) -> str:
    """A time without year and offset, for narrow tables."""
    return f"{local_time(moment):%m-%d %H:%M:%S}"


def local_time(moment: datetime) -> datetime:
    return moment.astimezone(UTC) if display.utc else moment.astimezone()


def text_width(text: str) -> int:
    """The number of columns that a text takes: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(_character_width(each) for each in text)


def cut(text: str, width: int) -> str:
    """Shorten a text to a number of columns; an ellipsis shows that something is missing."""
    if text_width(text) <= width:
        return text
    kept, used = "", 0
    for each in text:
        used += _character_width(each)
        if used > width - 1:
            break
        kept += each
    return kept + ELLIPSIS


def _character_width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _use_utc(requested: bool) -> None:
    if requested:
        display.utc = True


def _use_no_color(requested: bool) -> None:
    if requested:
        display.no_color = True


def _display_options(
    utc: Annotated[
        bool,
        typer.Option("--utc", callback=_use_utc, expose_value=False, help="Show times in UTC."),
    ] = False,
    no_color: Annotated[
        bool,
        typer.Option("--no-color", callback=_use_no_color, expose_value=False, help="Print no colours."),
    ] = False,
) -> None:
    """The options that every command has."""


def add_display_options(command: Any) -> None:
    """Add --utc and --no-color to a command and all its subcommands."""
    template = typer.Typer(add_completion=False)
    template.command()(_display_options)
    _extend(command, get_command(template).params)


def _extend(command: Any, options: list[Any]) -> None:
    command.params.extend(options)
    for subcommand in getattr(command, "commands", {}).values():
        _extend(subcommand, options)


def reset_display() -> None:
    """Forget the options of an earlier command of this process."""
    display.utc = display.no_color = False
