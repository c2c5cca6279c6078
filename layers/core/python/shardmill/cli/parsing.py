"""Parsers for option values: times, durations, parameters and task indexes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import typer

if TYPE_CHECKING:
    from shardmill.client.client import Client

MAX_DURATION_SECONDS = 10 * 366 * 86_400  # the API's limit
MAX_INDEXES = 10_000  # the API's limit

_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_DURATION = re.compile(r"(\d{1,12})([smhd]?)", re.ASCII)
_INDEX_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Moment:
    """A date or a time given by the user. A date becomes a time once its time zone is known."""

    text: str
    value: date

    @property
    def is_date(self) -> bool:
        return not isinstance(self.value, datetime)

    def to_utc(self, timezone: str) -> datetime:
        """Return the time, or 00:00 of the date in `timezone`, in UTC."""
        if isinstance(self.value, datetime):
            return self.value
        try:
            return datetime.combine(self.value, time(), ZoneInfo(timezone)).astimezone(UTC)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise typer.BadParameter(
                f"unknown time zone {timezone!r}; give {self.text} as a time with a UTC offset instead"
            ) from None
        except OverflowError:
            raise typer.BadParameter(f"{self.text} is out of range") from None


def parse_moment(text: str) -> Moment:
    """Parse an ISO 8601 date or time; a time without an offset is UTC."""
    try:
        return Moment(text, date.fromisoformat(text))
    except ValueError:
        pass  # not a date: try a time
    try:
        found = datetime.fromisoformat(text)
        return Moment(text, found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"{text!r} must be a date such as 2026-01-21 or a time such as 2026-01-21T04:30:00Z"
        ) from None


def resolve_moments(
    client: Client, job_name: str, schedule_id: str, moments: Iterable[Moment]
) -> list[datetime]:
    """Convert to UTC; the schedule is read for its time zone only if one of the moments is a date."""
    given = list(moments)
    has_date = any(each.is_date for each in given)
    timezone = client.schedule(job_name, schedule_id).timezone if has_date else "UTC"
    return [each.to_utc(timezone) for each in given]


def parse_duration(text: str) -> int:
    """Parse 900, 900s, 15m, 2h or 1d into seconds."""
    match = _DURATION.fullmatch(text)
    if not match:
        raise typer.BadParameter(f"{text!r} must be a number of seconds such as 900, or 15m, 2h or 1d")
    seconds = int(match[1]) * _UNIT_SECONDS[match[2] or "s"]
    if seconds > MAX_DURATION_SECONDS:
        raise typer.BadParameter(f"{text!r} is longer than ten years")
    return seconds


def format_duration(seconds: int) -> str:
    """Format seconds in the largest unit that divides them."""
    unit = next(unit for unit in "dhms" if seconds % _UNIT_SECONDS[unit] == 0)
    return f"{seconds // _UNIT_SECONDS[unit]}{unit}" if seconds else "0s"


def parse_params(given: Iterable[str], option: str = "--param", form: str = "NAME=VALUE") -> dict[str, str]:
    """Parse NAME=VALUE pairs; a name given twice is an error."""
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{text!r} must have the form {form}", param_hint=option)
        if name in found:
            raise typer.BadParameter(f"{name!r} is given more than once", param_hint=option)
        found[name] = value
    return found


def parse_step_params(given: Iterable[str]) -> dict[str, dict[str, str]]:
    """Parse STEP.NAME=VALUE by step. Step names contain no dot; parameter names can."""
    return _by_step(given, "--step-param", "STEP.NAME=VALUE")


def _by_step(given: Iterable[str], option: str, form: str) -> dict[str, dict[str, str]]:
    by_step: dict[str, list[str]] = {}
    for text in given:
        step, dot, assignment = text.partition(".")
        if not dot or not step or "=" in step:
            raise typer.BadParameter(f"{text!r} must have the form {form}", param_hint=option)
        by_step.setdefault(step, []).append(assignment)
    return {step: parse_params(assignments, option) for step, assignments in by_step.items()}


def parse_step_fields(given: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Parse STEP.FIELD=VALUE by step; a value that is not JSON is a string."""
    found = _by_step(given, "--step", "STEP.FIELD=VALUE")
    return {
        step: {name: _json_or_text(value) for name, value in fields.items()} for step, fields in found.items()
    }


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def parse_indexes(text: str) -> list[int]:
    """Parse task indexes and ranges such as 3,7-9 into a sorted list without duplicates."""
    found: set[int] = set()
    for part in text.split(","):
        match = _INDEX_RANGE.fullmatch(part.strip())
        if not match:
            raise typer.BadParameter(f"{text!r} must be a list of indexes and ranges such as 3,7-9")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise typer.BadParameter(f"the range {part.strip()} ends before it starts")
        found.update(range(first, min(last, first + MAX_INDEXES) + 1))
        if len(found) > MAX_INDEXES:
            raise typer.BadParameter(
                f"more than {MAX_INDEXES:,} tasks cannot be selected; leave out --shards to rerun the step"
            )
    return sorted(found)
