"""Deadlines by seconds and by time of day."""

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.model.definition.validation import check_definition
from shardmill.model.time.deadline import deadline
from shardmill.model.timestamps import from_ms, to_ms

quick = settings(max_examples=60)
ZONES = ["UTC", "Asia/Tokyo", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia"]
moments = st.integers(to_ms(datetime(2000, 1, 1, tzinfo=UTC)), to_ms(datetime(2060, 1, 1, tzinfo=UTC)))
times_of_day = st.times().map(lambda each: each.strftime("%H:%M"))
seconds = st.integers(1, 10**8)
zones = st.sampled_from(ZONES)


@quick
@given(moments, seconds)
def test_seconds_count_from_the_start(start: int, seconds: int) -> None:
    assert deadline(start, seconds, "", "") == start + seconds * 1000


@quick
@given(moments, times_of_day, zones)
def test_a_time_of_day_is_the_next_on_the_wall_clock(start: int, wanted: str, zone: str) -> None:
    found = deadline(start, None, wanted, zone)
    assert found is not None
    assert start < found <= start + timedelta(hours=49) // timedelta(milliseconds=1)
    shown = from_ms(found).astimezone(ZoneInfo(zone))
    if shown.time() != time.fromisoformat(wanted):  # skipped by a clock change
        before = from_ms(found - 1).astimezone(ZoneInfo(zone))
        assert before.utcoffset() != shown.utcoffset()
        assert before.time() < time.fromisoformat(wanted) < shown.time() or before.date() != shown.date()


@quick
@given(moments, st.none() | seconds, st.just("") | times_of_day, zones)
def test_the_earlier_deadline_applies(start: int, seconds: int | None, wanted: str, zone: str) -> None:
    each = [deadline(start, seconds, "", zone), deadline(start, None, wanted, zone)]
    deadlines = [one for one in each if one is not None]
    assert deadline(start, seconds, wanted, zone) == min(deadlines, default=None)


@pytest.mark.parametrize("wrong", ["6:30", "24:00", "06:60", "06:30:00", "", 390, "٠٦:٣٠", "06:30\n"])
def test_invalid_times_of_day_are_rejected(wrong: object) -> None:
    _, faults = check_definition({"jobName": "a", "deadlineTime": wrong, "steps": [{"stepName": "a"}]})
    [fault] = faults
    assert (fault.pointer, fault.code) == ("/deadlineTime", "bad-time")
    assert "in quotes" in fault.message


@pytest.mark.parametrize("wrong", ["end", "", 1])
def test_invalid_deadline_actions_are_rejected(wrong: object) -> None:
    _, faults = check_definition({"jobName": "a", "onDeadline": wrong, "steps": [{"stepName": "a"}]})
    assert [fault.pointer for fault in faults] == ["/onDeadline"]
