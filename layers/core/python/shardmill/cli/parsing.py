"""Times, dates and spans of time on the command line."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import typer

if TYPE_CHECKING:
    from shardmill.client import Client

LONGEST_SPAN = 10 * 366 * 86_400  # as the API has it
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_SPAN = re.compile(r"(\d{1,12})([smhd]?)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Moment:
    """A date or a time as somebody wrote it; what a date means depends on a zone."""

    text: str
    value: date

    @property
    def is_day(self) -> bool:
        return not isinstance(self.value, datetime)

    def begins(self, zone: str) -> datetime:
        """The time itself, or 00:00 of the date in that zone."""
        if isinstance(self.value, datetime):
            return self.value
        try:
            return datetime.combine(self.value, time(), ZoneInfo(zone)).astimezone(UTC)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise typer.BadParameter(
                f"the time zone {zone!r} is not known here; give {self.text} as a time with its offset"
            ) from None
        except OverflowError:
            raise typer.BadParameter(f"{self.text} is too far away") from None


def moment(text: str) -> Moment:
    """A date, or a time, which is UTC if it has no offset."""
    try:
        return Moment(text, date.fromisoformat(text))
    except ValueError:
        pass  # then it is a time
    try:
        found = datetime.fromisoformat(text)
        return Moment(text, found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"{text!r} must be a date such as 2026-01-21, or a time such as 2026-01-21T04:30:00Z"
        ) from None


def instants(client: Client, job_name: str, schedule_id: str, moments: Iterable[Moment]) -> list[datetime]:
    """When they are; the schedule is asked for its zone if that matters."""
    wanted = list(moments)
    in_zone = any(each.is_day for each in wanted)
    zone = client.schedule(job_name, schedule_id).timezone if in_zone else "UTC"
    return [each.begins(zone) for each in wanted]


def span(text: str) -> int:
    """Seconds: 900, 900s, 15m, 2h or 1d."""
    match = _SPAN.fullmatch(text)
    if not match:
        raise typer.BadParameter(f"{text!r} must be seconds such as 900, or 15m, 2h or 1d")
    found = int(match[1]) * _UNITS[match[2] or "s"]
    if found > LONGEST_SPAN:
        raise typer.BadParameter(f"{text!r} is longer than ten years")
    return found


def span_text(seconds: int) -> str:
    """In the largest unit that it is a multiple of."""
    unit = next(unit for unit in "dhms" if seconds % _UNITS[unit] == 0)
    return f"{seconds // _UNITS[unit]}{unit}" if seconds else "0s"


def params(given: Iterable[str], option: str = "--param", shape: str = "NAME=VALUE") -> dict[str, str]:
    """Values are texts; a name may be given once."""
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{text!r} must be {shape}", param_hint=option)
        if name in found:
            raise typer.BadParameter(f"{name!r} is given twice", param_hint=option)
        found[name] = value
    return found


def step_params(given: Iterable[str]) -> dict[str, dict[str, str]]:
    """The values by step; the name of a step has no dot, that of a parameter may have some."""
    option = "--step-param"
    by_step: dict[str, list[str]] = {}
    for text in given:
        step, dot, assignment = text.partition(".")
        if not dot or not step or "=" in step:
            raise typer.BadParameter(f"{text!r} must be STEP.NAME=VALUE", param_hint=option)
        by_step.setdefault(step, []).append(assignment)
    return {step: params(assignments, option) for step, assignments in by_step.items()}


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
