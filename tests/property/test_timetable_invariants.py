"""Invariants of timetables for any expression, time zone and clock change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

from cronsim import CronSim
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from shardmill.model.time.cron import cron_fault
from shardmill.model.time.timetable import Timetable

quick = settings(max_examples=60, suppress_health_check=[HealthCheck.filter_too_much])

EPOCH = datetime(1975, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
ZONES = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "UTC"]
CHANGES = {
    "Europe/Berlin": ["2024-03-31T01:00", "2024-10-27T01:00"],
    "America/New_York": ["2024-03-10T07:00", "2024-11-03T06:00"],
    "Australia/Lord_Howe": ["2024-04-06T15:00", "2024-10-05T15:30"],
    "America/Sao_Paulo": ["2018-11-04T03:00", "2018-02-18T02:00"],
    "Africa/Cairo": ["2024-04-25T22:00", "2024-10-31T21:00"],
    "Pacific/Apia": ["2011-12-30T10:00"],
    "Asia/Kolkata": ["2024-03-31T00:00"],
}

zones = st.sampled_from([*ZONES, "America/Sao_Paulo", "Africa/Cairo", "Pacific/Apia"])
moments = st.integers(0, 145 * 365 * 86_400 * 1_000).map(
    lambda number: EPOCH + timedelta(milliseconds=number)
)


def items(low: int, high: int) -> st.SearchStrategy[str]:
    ends = st.tuples(st.integers(low, high), st.integers(low, high)).filter(lambda pair: pair[0] < pair[1])
    return st.one_of(
        st.integers(low, high).map(str),
        ends.map(lambda pair: f"{pair[0]}-{pair[1]}"),
        ends.flatmap(
            lambda pair: st.integers(1, pair[1] - pair[0]).map(lambda step: f"{pair[0]}-{pair[1]}/{step}")
        ),
        st.integers(1, high - low).map(lambda step: f"*/{step}"),
    )


def fields(low: int, high: int, *, star: int = 1) -> st.SearchStrategy[str]:
    lists = st.lists(items(low, high), min_size=1, max_size=3).map(",".join)
    return st.one_of(*[st.just("*")] * star, lists)


weekdays = st.one_of(fields(0, 7, star=4), st.sampled_from(["MON-FRI", "sat#2", "SUN", "tue#5,3#1"]))
days = st.one_of(fields(1, 31, star=4), st.sampled_from(["L", "1,L"]))
expressions = (
    st.tuples(fields(0, 59), fields(0, 23), days, fields(1, 12, star=3), weekdays)
    .map(" ".join)
    .filter(lambda text: cron_fault(text) is None)
)
tables = st.one_of(
    st.builds(Timetable, cron=expressions, timezone=zones),
    st.builds(Timetable, every_seconds=st.integers(1, 10**7), timezone=zones),
    st.builds(
        Timetable, every_seconds=st.integers(1, 10**6), timezone=zones, start_date=st.dates(date(1975, 1, 1))
    ),
    st.builds(Timetable, at=moments, timezone=zones),
)


def iterate(table: Timetable, moment: datetime, most: int) -> list[datetime]:
    found: list[datetime] = []
    while len(found) < most and (following := table.after(moment)) is not None:
        found.append(following)
        moment = following
    return found


def matches(sim: CronSim, wall: datetime) -> bool:
    return (
        wall.minute in sim.minutes
        and wall.hour in sim.hours
        and wall.month in sim.months
        and sim.match_day(wall.date())
    )


def times_by_wall_clock(cron: str, zone: ZoneInfo, start: datetime, end: datetime) -> Iterator[datetime]:
    """The times of an expression, found by checking the wall clock every minute."""
    sim = CronSim(cron, EPOCH)
    fixed = not cron.split()[1].startswith("*")
    shown = (start - timedelta(hours=30)).astimezone(zone).replace(tzinfo=None)
    moment = start - timedelta(hours=30) + MINUTE
    while moment < end:
        wall = moment.astimezone(zone).replace(tzinfo=None, fold=0)
        if fixed:
            passed = [shown + number * MINUTE for number in range(1, (wall - shown) // MINUTE + 1)]
        else:
            passed = [wall]
        if moment >= start and any(matches(sim, each) for each in passed):
            yield moment
        shown = max(shown, wall)
        moment += MINUTE


@quick
@given(tables, moments)
def test_times_increase_and_agree_with_after(table: Timetable, start: datetime) -> None:
    found = iterate(table, start, 8)
    assert all(one < other for one, other in pairwise([start, *found]))
    assert all(each.tzinfo is UTC for each in found)
    end = found[-1] if found else start + timedelta(days=1)
    assert list(table.times(start + timedelta(microseconds=1), end)) == found[:-1]
    assert list(table.times(start + timedelta(microseconds=1), end + timedelta(microseconds=1))) == found


@quick
@given(tables, st.dates(date(1975, 1, 1), date(2120, 1, 1)), st.integers(0, 400))
def test_start_and_end_dates_only_remove_times(table: Timetable, first: date, length: int) -> None:
    last = first + timedelta(days=length)
    plain = replace(table, start_date=None)
    # a start date also moves the time from which everySeconds counts
    limited = replace(plain, start_date=None if table.every_seconds else first, end_date=last)
    begin = datetime(first.year, first.month, first.day, tzinfo=UTC) - timedelta(days=2)
    for found in islice(limited.times(begin, begin + timedelta(days=500)), 5):
        assert limited.local(found).date() <= last
        assert table.every_seconds or limited.local(found).date() >= first
        assert next(plain.times(found, found + timedelta(microseconds=1))) == found


@quick
@given(expressions, st.sampled_from(sorted(CHANGES)), st.data())
def test_cron_follows_the_wall_clock_around_clock_changes(cron: str, zone: str, data: st.DataObject) -> None:
    change = datetime.fromisoformat(data.draw(st.sampled_from(CHANGES[zone]))).replace(tzinfo=UTC)
    start = change + data.draw(st.integers(-300, 60)) * MINUTE
    end = start + data.draw(st.integers(1, 400)) * MINUTE
    expected = list(times_by_wall_clock(cron, ZoneInfo(zone), start, end))
    assert list(Timetable(cron=cron, timezone=zone).times(start, end)) == expected


@quick
@given(fields(0, 59), days, weekdays, st.integers(1, 23), zones, moments)
def test_a_wildcard_hour_matches_on_the_wall_clock(
    minute: str, day: str, weekday: str, step: int, zone: str, start: datetime
) -> None:
    cron = f"{minute} */{step} {day} * {weekday}"
    assume(cron_fault(cron) is None)
    table, sim = Timetable(cron=cron, timezone=zone), CronSim(cron, EPOCH)
    walls = [table.local(found) for found in iterate(table, start, 5)]
    assert len(walls) == 5
    assert all(wall.second == 0 and matches(sim, wall) for wall in walls)


@quick
@given(
    st.integers(0, 59), st.integers(0, 23), st.dates(date(1975, 1, 1), date(2060, 1, 1)), st.integers(0, 30)
)
def test_a_fixed_hour_fires_once_a_day(minute: int, hour: int, first: date, length: int) -> None:
    every = [first + timedelta(days=number) for number in range(length + 1)]
    for zone in ZONES:
        table = Timetable(
            cron=f"{minute} {hour} * * *", timezone=zone, start_date=every[0], end_date=every[-1]
        )
        found = table.times(datetime(1970, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC))
        assert [table.local(each).date() for each in found] == every


@quick
@given(expressions, moments)
def test_accepted_expressions_agree_with_cronsim(cron: str, start: datetime) -> None:
    sim = CronSim(cron, start)
    assert iterate(Timetable(cron=cron), start, 5) == [next(sim) for _ in range(5)]


@quick
@given(st.text(st.sampled_from("0123456789*/,-#?@LWHR \tmonjan{}é"), max_size=30))
def test_any_text_is_rejected_or_fires(text: str) -> None:
    fault = cron_fault(text)
    if fault is None:
        assert Timetable(cron=text).after(datetime(2024, 1, 1, tzinfo=UTC)) is not None
    else:
        assert fault[0] in {"bad-cron", "ambiguous-cron", "impossible-date"}
        assert "{" not in fault[1]
