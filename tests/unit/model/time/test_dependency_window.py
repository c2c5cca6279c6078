"""Windows of dependencies: calendar units of a zone, clock changes included."""

from datetime import timedelta

import pytest
from pydantic import ValidationError

from shardmill.model.definition.fields import Window
from shardmill.model.time.dependency_window import bounds
from support.scenarios.schedule_clock import at


@pytest.mark.parametrize(
    ("unit", "start", "end", "zone", "begins", "ends"),
    [
        ("day", 0, 0, "UTC", "2026-03-29 00:00", "2026-03-30 00:00"),
        ("day", -1, -1, "UTC", "2026-03-28 00:00", "2026-03-29 00:00"),
        ("day", -6, 0, "UTC", "2026-03-23 00:00", "2026-03-30 00:00"),
        ("day", 0, 0, "Europe/Berlin", "2026-03-28 23:00", "2026-03-29 22:00"),  # 23 hours
        ("day", 0, 0, "America/New_York", "2026-03-29 04:00", "2026-03-30 04:00"),
        ("day", 0, 0, "Asia/Kolkata", "2026-03-28 18:30", "2026-03-29 18:30"),
        ("hour", 0, 0, "UTC", "2026-03-29 10:00", "2026-03-29 11:00"),
        ("hour", -24, -1, "UTC", "2026-03-28 10:00", "2026-03-29 10:00"),
        ("hour", 0, 0, "Asia/Kolkata", "2026-03-29 09:30", "2026-03-29 10:30"),
        ("minute", 0, 1, "UTC", "2026-03-29 10:20", "2026-03-29 10:22"),
        ("week", 0, 0, "UTC", "2026-03-23 00:00", "2026-03-30 00:00"),
        ("week", -1, -1, "UTC", "2026-03-16 00:00", "2026-03-23 00:00"),
        ("month", 0, 0, "UTC", "2026-03-01 00:00", "2026-04-01 00:00"),
        ("month", -3, -3, "UTC", "2025-12-01 00:00", "2026-01-01 00:00"),
        ("month", 0, 0, "Europe/Berlin", "2026-02-28 23:00", "2026-03-31 22:00"),
        ("year", -1, 0, "UTC", "2025-01-01 00:00", "2027-01-01 00:00"),
    ],
)
def test_a_window_begins_and_ends_with_its_units(
    unit: str, start: int, end: int, zone: str, begins: str, ends: str
) -> None:
    window = Window.model_validate({"unit": unit, "from": start, "to": end})
    assert bounds(window, at("2026-03-29 10:20"), zone) == (at(begins), at(ends))


@pytest.mark.parametrize(
    ("week_start", "moment", "begins"),
    [
        (None, "2026-03-28 10:00", "2026-03-23 00:00"),  # a Saturday
        (None, "2026-03-29 10:00", "2026-03-23 00:00"),
        (None, "2026-03-30 00:00", "2026-03-30 00:00"),
        ("monday", "2026-03-29 10:00", "2026-03-23 00:00"),
        ("sunday", "2026-03-28 23:59", "2026-03-22 00:00"),
        ("sunday", "2026-03-29 00:00", "2026-03-29 00:00"),
        ("sunday", "2026-03-30 00:00", "2026-03-29 00:00"),
    ],
)
def test_weeks_begin_on_monday_or_sunday(week_start: str | None, moment: str, begins: str) -> None:
    week = {"unit": "week", "from": 0, "to": 0} | ({"weekStart": week_start} if week_start else {})
    start, end = bounds(Window.model_validate(week), at(moment), "UTC")
    assert (start, end - start) == (at(begins), timedelta(days=7))


def test_the_first_day_of_the_week_requires_weeks() -> None:
    with pytest.raises(ValidationError, match="weekStart requires unit: week"):
        Window.model_validate({"unit": "day", "from": 0, "to": 0, "weekStart": "sunday"})


def test_a_day_without_midnight_begins_after_the_gap() -> None:
    """In Cairo the clocks went from 00:00 to 01:00 on 24 April 2026."""
    window = Window.model_validate({"unit": "day", "from": 0, "to": 0})
    begins, ends = bounds(window, at("2026-04-24 10:00"), "Africa/Cairo")
    assert (begins, ends) == (at("2026-04-23 22:00"), at("2026-04-24 21:00"))


@pytest.mark.parametrize("unit", ["minute", "hour", "day", "week", "month", "year"])
def test_windows_stay_within_the_limits_of_time(unit: str) -> None:
    window = Window.model_validate({"unit": unit, "from": -10_000, "to": 10_000})
    begins, ends = bounds(window, at("2026-01-01 00:00"), "UTC")
    assert begins < at("2026-01-01 00:00") < ends
