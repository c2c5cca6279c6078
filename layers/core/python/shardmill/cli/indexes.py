"""The indexes of tasks on the command line: 3,7-9."""

from __future__ import annotations

import re

import typer

MOST = 10_000  # as the API has it
_PART = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)


def indexes(text: str) -> list[int]:
    """Each of them once, in order."""
    found: set[int] = set()
    for part in text.split(","):
        match = _PART.fullmatch(part.strip())
        if not match:
            raise typer.BadParameter(f"{text!r} must be indexes and ranges of them, such as 3,7-9")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise typer.BadParameter(f"the range {part.strip()} goes backwards")
        found.update(range(first, min(last, first + MOST) + 1))
        if len(found) > MOST:
            raise typer.BadParameter(f"more than {MOST:,} tasks cannot be named; rerun their whole step")
    return sorted(found)
