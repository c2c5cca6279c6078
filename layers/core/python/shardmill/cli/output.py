"""Print data to standard output and messages to standard error."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain, islice
from typing import IO, Any, TypeVar

from shardmill.cli.terminal import coloured, cut, short_time_text, text_width, time_text
from shardmill.cli.terminal import columns as terminal_columns

T = TypeVar("T")

SAMPLE_ROWS = 200
GAP = "  "
NAME_COLUMNS = 2
MIN_TEXT = 6
SHORT = 14
# A colour of ours, or a character that could control the terminal or turn the direction of the text.
_UNSAFE = re.compile(r"(\033\[\d{1,2}m)|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_UNITS = ("kB", "MB", "GB", "TB")
_COLOURS = {
    "SUCCESS": 32,
    "ONLINE": 32,
    "ON": 32,
    "DONE": 32,
    "TOLERATED": 33,
    "SUSPENDED": 33,
    "DRAINING": 33,
    "STOPPED": 33,
    "RUNNING": 36,
    "FAILED": 31,
    "KILLED": 31,
    "DISCONNECTED": 31,
    "SKIPPED": 2,
    "WAITING": 2,
    "OFFLINE": 2,
    "OFF": 2,
}


def message(text: str) -> None:
    sys.stderr.write(f"shardmill: {printable(text)}\n")
    sys.stderr.flush()


def line(text: str = "") -> None:
    """Print one or more lines, without control characters that other users' texts may contain."""
    sys.stdout.write(_UNSAFE.sub(lambda found: found[1] or " ", text) + "\n")


def json_document(value: Any) -> None:
    """Print a model or plain values as one indented JSON document."""
    sys.stdout.write(_json(value, indent=2) + "\n")


def json_line(value: Any) -> None:
    """Print one line of JSON Lines and flush it, so that readers see it immediately."""
    sys.stdout.write(_json(value, indent=None) + "\n")
    sys.stdout.flush()


def json_list(items: Iterable[Any]) -> None:
    """Print a JSON array item by item, so that it never has to fit into memory."""
    separator = "[\n"
    for item in items:
        sys.stdout.write(f"{separator}{_json(item, indent=None)}")
        separator = ",\n"
    sys.stdout.write("[]\n" if separator == "[\n" else "\n]\n")


def listing(items: Iterable[T], columns: Mapping[str, Callable[[T], object]], as_json: bool) -> None:
    """Print items as a JSON array or as a table with these columns."""
    if as_json:
        json_list(items)
    else:
        table(list(columns), ([column(item) for column in columns.values()] for item in items))


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table row by row; the first rows determine the widths of the columns.

    On a terminal the table fits its width: times and long texts are shortened, in a pipe nothing is.
    """
    remaining = iter(rows)
    sample = list(islice(remaining, SAMPLE_ROWS))
    room, text_of = terminal_columns(sys.stdout), cell
    widths = _widths(headings, sample, text_of)
    if room is not None and _total(widths) > room:
        text_of = short_cell
        widths = fit(_widths(headings, sample, text_of), [text_width(each) for each in headings], room)
    line(paint(_format_row(headings, widths), 1))
    for row in chain(sample, remaining):
        line(_format_row([text_of(value) for value in row], widths, colours=True, cut_cells=room is not None))


def fit(widths: Sequence[int], headings: Sequence[int], room: int) -> list[int]:
    """Narrow the widest columns until the table fits; triggers, in the second column, shrink last.

    Short columns, such as states and times, stay. Columns at the end that still do not fit are left out, and
    their width goes to the others.
    """
    fitted = list(widths)
    count = len(widths)
    stages = (
        (range(min(NAME_COLUMNS, count - 1), count), MIN_TEXT),
        (range(1), SHORT),
        (range(count), SHORT),
    )
    for shrinking, least in stages:
        floors = [
            width if width <= SHORT else max(heading, least)
            for width, heading in zip(widths, headings, strict=True)
        ]
        while _total(fitted) > room:
            wide = [at for at in shrinking if fitted[at] > floors[at]]
            if not wide:
                break
            fitted[max(wide, key=lambda at: fitted[at])] -= 1
    if _total(fitted) > room and count > 1:
        return fit(widths[:-1], headings[:-1], room)
    return fitted


def _widths(
    headings: Sequence[str], rows: Sequence[Sequence[object]], text_of: Callable[[object], str]
) -> list[int]:
    texts = [list(headings), *([text_of(value) for value in row] for row in rows)]
    return [max(text_width(row[at]) for row in texts) for at in range(len(headings))]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def details(values: Mapping[str, object]) -> None:
    """Print one line for each value that is not empty."""
    for name, value in values.items():
        if value not in (None, "", []):
            line(f"  {name:<10} {cell(value)}")


def cell(value: object) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, datetime):
        return time_text(value)
    if isinstance(value, float):
        return seconds(value)
    if isinstance(value, (list, tuple)):
        return ",".join(printable(str(each)) for each in value) or "-"
    return printable(str(value))


def short_cell(value: object) -> str:
    return short_time_text(value) if isinstance(value, datetime) else cell(value)


def seconds(duration: float) -> str:
    if duration < 60:
        return f"{duration:.1f} s"
    minutes, rest = divmod(round(duration), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d} min"


def size(number: int) -> str:
    """Format a number of bytes with a decimal unit."""
    if number < 1_000:
        return f"{number} B"
    amount, unit = number / 1_000, 0
    while amount >= 999.95 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1_000, unit + 1
    return f"{amount:.1f} {_UNITS[unit]}"


def plural(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def elapsed(start: datetime | None, end: datetime | None, *, running: bool = False) -> float | None:
    """The seconds from `start` to `end`; on a terminal, until now if there is no end yet."""
    if end is None and running and terminal_columns(sys.stdout) is not None:
        end = datetime.now(UTC)
    return max(0.0, (end - start).total_seconds()) if start and end else None


def printable(text: str) -> str:
    """Replace control characters, which could move the cursor or break a table."""
    return "".join(each if each.isprintable() else " " for each in text)


def paint(text: str, colour: int, stream: IO[str] | None = None) -> str:
    return f"\033[{colour}m{text}\033[0m" if coloured(stream or sys.stdout) else text


def paint_state(state: str) -> str:
    return paint(state, _COLOURS[state]) if state in _COLOURS else state


def _format_row(
    cells: Sequence[str], widths: Sequence[int], colours: bool = False, cut_cells: bool = False
) -> str:
    """Pad each cell to its column; without a terminal, the rows after the sample may be wider."""
    padded = []
    for text, width in zip(cells, widths, strict=False):
        shown = cut(text, width) if cut_cells else text
        padded.append((paint_state(shown) if colours else shown) + " " * (width - text_width(shown)))
    return GAP.join(padded).rstrip()


def _json(value: Any, indent: int | None) -> str:
    plain = value.model_dump(mode="json") if hasattr(value, "model_dump") else value
    return json.dumps(plain, indent=indent, ensure_ascii=False)
