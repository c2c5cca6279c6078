"""Packed times: every ascending list survives, and those of a schedule are small."""

from datetime import UTC, datetime
from itertools import accumulate
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from shardmill.model.time.packed_times import pack, unpack
from shardmill.model.time.timetable import Timetable


@given(st.integers(-(10**13), 10**13), st.lists(st.integers(0, 10**10), max_size=60))
def test_packed_times_are_unpacked_as_they_were(first: int, steps: list[int]) -> None:
    times = list(accumulate(steps, initial=first))
    assert unpack(pack(times)) == times


def test_the_lists_of_earlier_releases_are_read() -> None:
    assert unpack([1, 2, 3]) == [1, 2, 3]
    assert unpack(pack([])) == []


def test_a_year_of_hours_takes_little_room() -> None:
    table = Timetable(cron="7,19,48 * * * *", timezone="Europe/Berlin")
    found = table.times(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 5, 1, tzinfo=UTC))
    times = [int(time.timestamp() * 1000) for time in found]
    assert len(times) > 8_000
    assert len(pack(times)) < 1_000


def test_times_without_a_pattern_fit_into_a_row() -> None:
    random = Random(1)
    times = list(accumulate(random.randrange(1, 10**5) * 1000 for _ in range(10_000)))
    assert len(pack(times)) < 60_000
