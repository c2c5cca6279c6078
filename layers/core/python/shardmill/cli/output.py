"""What commands print: data on standard output, messages on standard error."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, islice
from typing import IO, Any, TypeVar

T = TypeVar("T")

SAMPLE = 200
GAP = "  "
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
    sys.stdout.write(text + "\n")


def json_document(value: Any) -> None:
    """One JSON document, of a model or of plain values."""
    sys.stdout.write(_json(value, indent=2) + "\n")


def json_line(value: Any) -> None:
    """One of many JSON documents, each in its line, readable at once."""
    sys.stdout.write(_json(value, indent=None) + "\n")
    sys.stdout.flush()


def json_list(items: Iterable[Any]) -> None:
    """One JSON array, printed while it comes, so that it may be longer than memory."""
    before = "[\n"
    for item in items:
        sys.stdout.write(f"{before}{_json(item, indent=None)}")
        before = ",\n"
    sys.stdout.write("[]\n" if before == "[\n" else "\n]\n")


def listing(items: Iterable[T], columns: Mapping[str, Callable[[T], object]], as_json: bool) -> None:
    """A list for programs or for people, who see these columns of it."""
    if as_json:
        json_list(items)
    else:
        table(list(columns), ([column(item) for column in columns.values()] for item in items))


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Columns as wide as the first rows need, printed while the rows come."""
    texts: Iterator[list[str]] = ([cell(value) for value in row] for row in rows)
    sample = list(islice(texts, SAMPLE))
    widths = [max(len(row[at]) for row in [list(headings), *sample]) for at in range(len(headings))]
    line(paint(_joined(headings, widths), 1))
    for row in chain(sample, texts):
        line(_joined(row, widths, colours=True))


def facts(values: Mapping[str, object]) -> None:
    """What is known of one thing, a line each; what is empty is left out."""
    for name, value in values.items():
        if value not in (None, "", []):
            line(f"  {name:<10} {cell(value)}")


def cell(value: object) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%dT%H:%M:%SZ}"
    if isinstance(value, float):
        return seconds(value)
    if isinstance(value, (list, tuple)):
        return ",".join(printable(str(each)) for each in value) or "-"
    return printable(str(value))


def seconds(duration: float) -> str:
    if duration < 60:
        return f"{duration:.1f} s"
    minutes, left = divmod(round(duration), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{left:02d}" if hours else f"{minutes}:{left:02d} min"


def size(number: int) -> str:
    """So many bytes, in the unit that fits."""
    if number < 1_000:
        return f"{number} B"
    amount, unit = number / 1_000, 0
    while amount >= 999.95 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1_000, unit + 1
    return f"{amount:.1f} {_UNITS[unit]}"


def many(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def took(start: datetime | None, end: datetime | None) -> float | None:
    return (end - start).total_seconds() if start and end else None


def printable(text: str) -> str:
    """What others wrote, without what could move the cursor or spoil a table."""
    return "".join(each if each.isprintable() else " " for each in text)


def paint(text: str, colour: int, stream: IO[str] | None = None) -> str:
    return f"\033[{colour}m{text}\033[0m" if coloured(stream or sys.stdout) else text


def paint_state(state: str) -> str:
    return paint(state, _COLOURS[state]) if state in _COLOURS else state


def coloured(stream: IO[str]) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _joined(cells: Sequence[str], widths: Sequence[int], colours: bool = False) -> str:
    padded = [
        (paint_state(text) if colours else text) + " " * (width - len(text))
        for text, width in zip(cells, widths, strict=True)
    ]
    return GAP.join(padded).rstrip()


def _json(value: Any, indent: int | None) -> str:
    plain = value.model_dump(mode="json") if hasattr(value, "model_dump") else value
    return json.dumps(plain, indent=indent, ensure_ascii=False)
