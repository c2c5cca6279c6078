"""The times at which a schedule fires: clock changes, days and limits."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import islice, pairwise, takewhile
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim

from shardmill.model.time import cron as cron_module
from shardmill.model.time.cron import cron_fault
from shardmill.model.time.timetable import Timetable

BERLIN = "Europe/Berlin"
NEW_YORK = "America/New_York"
LORD_HOWE = "Australia/Lord_Howe"
KOLKATA = "Asia/Kolkata"
SAO_PAULO = "America/Sao_Paulo"
CAIRO = "Africa/Cairo"
APIA = "Pacific/Apia"
ZONES = [BERLIN, NEW_YORK, LORD_HOWE, KOLKATA, "UTC"]


def when(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def fired(table: Timetable, start: str, end: str) -> list[str]:
    return [f"{found:%d %H:%M}" for found in table.times(when(start), when(end))]


# Berlin goes from 2:00 to 3:00 on 31 March 2024, at 1:00 UTC.
BERLIN_SPRING = [
    ("30 2 * * *", ["30 01:30", "31 01:00"]),
    ("0 3 * * *", ["30 02:00", "31 01:00"]),
    ("0 2,3 * * *", ["30 01:00", "30 02:00", "31 01:00"]),
    ("*/20 2 * * *", ["30 01:00", "30 01:20", "30 01:40", "31 01:00"]),
    ("30 2 * * sun", ["31 01:00"]),
    ("30 2 31 3 *", ["31 01:00"]),
    ("30 1-3 31 * *", ["31 00:30", "31 01:00", "31 01:30"]),
    ("30 * 31 * *", ["30 23:30", *(f"31 {hour:02}:30" for hour in range(10))]),
    ("0 */2 31 * *", ["30 23:00", "31 02:00", "31 04:00", "31 06:00", "31 08:00"]),
    ("@daily", ["30 23:00"]),
]
# And from 3:00 to 2:00 on 27 October, at 1:00 UTC.
BERLIN_AUTUMN = [
    ("30 2 * * *", ["26 00:30", "27 00:30"]),
    ("0 3 * * *", ["26 01:00", "27 02:00"]),
    ("0 2 * * sun", ["27 00:00"]),
    ("*/30 2 27 * *", ["27 00:00", "27 00:30"]),
    ("30 1-3 27 * *", ["26 23:30", "27 00:30", "27 02:30"]),
    ("30 * 27 * *", ["26 22:30", "26 23:30", *(f"27 {hour:02}:30" for hour in range(10))]),
    ("0 */2 27 * *", ["26 22:00", *(f"27 {hour:02}:00" for hour in (0, 1, 3, 5, 7, 9))]),
    ("@daily", ["26 22:00"]),
]


@pytest.mark.parametrize(("cron", "times"), BERLIN_SPRING)
def test_times_are_correct_in_berlin_in_spring(cron: str, times: list[str]) -> None:
    assert fired(Timetable(cron=cron, timezone=BERLIN), "2024-03-30T00:00", "2024-03-31T10:00") == times


@pytest.mark.parametrize(("cron", "times"), BERLIN_AUTUMN)
def test_times_are_correct_in_berlin_in_autumn(cron: str, times: list[str]) -> None:
    assert fired(Timetable(cron=cron, timezone=BERLIN), "2024-10-26T00:00", "2024-10-27T10:00") == times


@pytest.mark.parametrize(
    ("zone", "cron", "start", "end", "times"),
    [
        # 2:00 becomes 3:00 at 7:00 UTC, and 2:00 becomes 1:00 at 6:00 UTC
        (NEW_YORK, "30 2 * * *", "2024-03-09T12:00", "2024-03-11T12:00", "10 07:00, 11 06:30"),
        (NEW_YORK, "30 * * * *", "2024-03-10T06:00", "2024-03-10T08:00", "10 06:30, 10 07:30"),
        (NEW_YORK, "30 1 * * *", "2024-11-02T12:00", "2024-11-04T12:00", "03 05:30, 04 06:30"),
        (NEW_YORK, "30 * * * *", "2024-11-03T05:00", "2024-11-03T07:00", "03 05:30, 03 06:30"),
        # half an hour: 2:00 becomes 1:30 at 15:00 UTC, and 2:00 becomes 2:30 at 15:30 UTC
        (LORD_HOWE, "45 1 * * *", "2024-04-06T12:00", "2024-04-07T18:00", "06 14:45, 07 15:15"),
        (LORD_HOWE, "45 * * * *", "2024-04-06T14:30", "2024-04-06T16:30", "06 14:45, 06 15:15, 06 16:15"),
        (LORD_HOWE, "15 * * * *", "2024-04-06T14:00", "2024-04-06T16:30", "06 14:15, 06 15:45"),
        (LORD_HOWE, "15 2 * * *", "2024-10-05T12:00", "2024-10-06T18:00", "05 15:30, 06 15:15"),
        (LORD_HOWE, "30 2 * * *", "2024-10-05T12:00", "2024-10-06T18:00", "05 15:30, 06 15:30"),
        (LORD_HOWE, "15 * * * *", "2024-10-05T14:00", "2024-10-05T17:00", "05 14:45, 05 16:15"),
        # no changes
        (KOLKATA, "30 5 * * *", "2024-03-31T00:00", "2024-04-02T00:00", "31 00:00, 01 00:00"),
        (KOLKATA, "0 * * * *", "2024-03-31T00:00", "2024-03-31T02:00", "31 00:30, 31 01:30"),
        ("UTC", "30 2 * * *", "2024-03-31T00:00", "2024-04-01T12:00", "31 02:30, 01 02:30"),
        # midnight is skipped at 3:00 UTC, and 23:00 is repeated at 2:00 UTC
        (SAO_PAULO, "0 0 * * *", "2018-11-03T12:00", "2018-11-05T12:00", "04 03:00, 05 02:00"),
        (SAO_PAULO, "30 0 * * *", "2018-11-03T12:00", "2018-11-05T12:00", "04 03:00, 05 02:30"),
        (SAO_PAULO, "30 23 * * *", "2018-02-17T12:00", "2018-02-19T12:00", "18 01:30, 19 02:30"),
        (CAIRO, "0 0 * * *", "2024-04-25T12:00", "2024-04-27T12:00", "25 22:00, 26 21:00"),
        (CAIRO, "15 23 * * *", "2024-10-31T12:00", "2024-11-02T12:00", "31 20:15, 01 21:15"),
        (CAIRO, "15 * 31 10 *", "2024-10-31T20:00", "2024-10-31T23:00", "31 20:15, 31 21:15"),
        # the second pass of the hour also fires; the wall clock alone would give a time next year
        (CAIRO, "30 */23 26 10 *", "2023-10-26T20:00", "2024-10-26T00:00", "26 20:30, 26 21:30, 25 21:30"),
        # 30 December 2011 is skipped, at 10:00 UTC
        (APIA, "0 9 * * *", "2011-12-29T00:00", "2011-12-31T00:00", "29 19:00, 30 10:00, 30 19:00"),
        (APIA, "0 9 30 12 *", "2011-12-28T00:00", "2012-12-30T00:00", "30 10:00, 29 19:00"),
        (APIA, "0 */8 * * *", "2011-12-30T00:00", "2011-12-30T20:00", "30 02:00, 30 10:00, 30 18:00"),
        (APIA, "0 */8 30 12 *", "2011-12-28T00:00", "2012-12-30T03:00", "29 10:00, 29 18:00, 30 02:00"),
    ],
)
def test_clock_changes_are_respected_in_other_zones(
    zone: str, cron: str, start: str, end: str, times: str
) -> None:
    assert ", ".join(fired(Timetable(cron=cron, timezone=zone), start, end)) == times


def test_after_is_strict_and_takes_any_zone() -> None:
    daily = Timetable(cron="30 2 * * *", timezone=BERLIN)
    spring = when("2024-03-31T01:00")
    assert daily.after(spring - timedelta(microseconds=1)) == spring
    assert daily.after(spring) == when("2024-04-01T00:30")
    assert daily.after(spring.astimezone(ZoneInfo("Asia/Tokyo"))) == when("2024-04-01T00:30")
    # both passes of the repeated hour, written in the zone itself
    pass_one = datetime(2024, 10, 27, 2, 15, tzinfo=ZoneInfo(BERLIN))
    assert daily.after(pass_one) == when("2024-10-27T00:30")
    assert daily.after(pass_one.replace(fold=1)) == when("2024-10-28T01:30")
    hourly = Timetable(cron="@hourly", timezone=BERLIN)
    last = datetime(2024, 10, 27, 2, 59, 59, 999_999, tzinfo=ZoneInfo(BERLIN))
    assert hourly.after(last) == when("2024-10-27T01:00")
    assert hourly.after(last.replace(fold=1)) == when("2024-10-27T02:00")
    found = daily.after(spring)
    assert found is not None
    assert found.tzinfo is UTC


def test_a_second_and_less_than_a_second_are_rounded_up() -> None:
    minutely = Timetable(cron="* * * * *")
    assert minutely.after(when("2024-01-01T00:00:00.000001")) == when("2024-01-01T00:01")
    assert minutely.after(when("2024-01-01T00:00:59.999999")) == when("2024-01-01T00:01")
    assert fired(minutely, "2024-01-01T00:00:00.000001", "2024-01-01T00:01:00.000001") == ["01 00:01"]


def test_times_include_the_start_and_exclude_the_end() -> None:
    daily = Timetable(cron="@daily")
    assert fired(daily, "2024-01-01T00:00", "2024-01-03T00:00") == ["01 00:00", "02 00:00"]
    assert fired(daily, "2024-01-03T00:00", "2024-01-01T00:00") == []
    assert fired(daily, "2024-01-01T00:00", "2024-01-01T00:00") == []


def test_times_are_computed_lazily() -> None:
    minutely = Timetable(cron="* * * * *").times(when("2024-01-01T00:00"), when("9999-01-01T00:00"))
    assert [found.minute for found in islice(minutely, 3)] == [0, 1, 2]


def test_local_is_the_wall_clock() -> None:
    assert Timetable(cron="@daily", timezone=KOLKATA).local(when("2024-01-01T00:00")).isoformat() == (
        "2024-01-01T05:30:00+05:30"
    )


@pytest.mark.parametrize(
    ("zone", "first", "last", "times"),
    [
        ("UTC", date(2024, 5, 1), date(2024, 5, 1), ["01 00:00", "01 08:00", "01 16:00"]),
        (KOLKATA, date(2024, 5, 1), date(2024, 5, 1), ["30 18:30", "01 02:30", "01 10:30"]),
        # the days of clock changes: 23 and 25 hours
        (BERLIN, date(2024, 3, 31), date(2024, 3, 31), ["30 23:00", "31 06:00", "31 14:00"]),
        (BERLIN, date(2024, 10, 27), date(2024, 10, 27), ["26 22:00", "27 07:00", "27 15:00"]),
        # a day that begins at 1:00
        (SAO_PAULO, date(2018, 11, 4), date(2018, 11, 4), ["04 03:00", "04 10:00", "04 18:00"]),
    ],
)
def test_days_are_inclusive_and_local(zone: str, first: date, last: date, times: list[str]) -> None:
    table = Timetable(cron="0 0,8,16 * * *", timezone=zone, start_date=first, end_date=last)
    assert fired(table, "2000-01-01T00:00", "2030-01-01T00:00") == times
    assert table.after(when("2000-01-01T00:00")) == next(
        table.times(when("2000-01-01T00:00"), when("2030-01-01T00:00"))
    )
    assert table.after(when("2030-01-01T00:00")) is None


def test_the_repeated_hour_before_midnight_belongs_to_the_day_that_ends() -> None:
    table = Timetable(cron="30 * * * *", timezone=SAO_PAULO, end_date=date(2018, 2, 17))
    assert fired(table, "2018-02-18T00:00", "2018-02-19T00:00") == ["18 00:30", "18 01:30", "18 02:30"]


def test_the_first_and_last_day_limit_all_times() -> None:
    days: dict[str, Any] = {"start_date": date(2024, 5, 2), "end_date": date(2024, 5, 3)}
    assert fired(Timetable(every_seconds=86_400, **days), "2024-01-01T00:00", "2025-01-01T00:00") == [
        "02 00:00",
        "03 00:00",
    ]
    assert Timetable(at=when("2024-05-03T23:59"), **days).after(when("2024-01-01T00:00")) is not None
    assert Timetable(at=when("2024-05-04T00:00"), **days).after(when("2024-01-01T00:00")) is None
    assert Timetable(at=when("2024-05-01T23:59"), **days).after(when("2024-01-01T00:00")) is None


@pytest.mark.parametrize(
    ("seconds", "start", "moment", "following"),
    [
        (60, None, "2024-01-01T00:00:30", "2024-01-01T00:01"),
        (60, None, "2024-01-01T00:01", "2024-01-01T00:02"),
        (7, None, "1970-01-01T00:00", "1970-01-01T00:00:07"),
        (7, None, "1969-12-31T23:59:50", "1969-12-31T23:59:53"),
        (86_400, None, "2024-01-01T00:00:00.000001", "2024-01-02T00:00"),
        # counted from the local midnight of the first day, 22:00 UTC before it in summer
        (86_400, date(2024, 10, 26), "2024-10-26T12:00", "2024-10-26T22:00"),
        # and elapsed: the day of the clock change is longer
        (86_400, date(2024, 10, 26), "2024-10-27T12:00", "2024-10-27T22:00"),
        (5_400, date(2024, 10, 26), "2000-01-01T00:00", "2024-10-25T22:00"),
        (5_400, date(2024, 10, 26), "2024-10-25T22:00", "2024-10-25T23:30"),
    ],
)
def test_every_seconds_counts_elapsed_time(
    seconds: int, start: date | None, moment: str, following: str
) -> None:
    table = Timetable(every_seconds=seconds, timezone=BERLIN, start_date=start)
    assert table.after(when(moment)) == when(following)


@pytest.mark.parametrize(
    ("months", "zone", "start", "times"),
    [
        # the last day of shorter months, each counted from the start
        (1, "UTC", date(2024, 1, 31), "2024-01-31T00:00 2024-02-29T00:00 2024-03-31T00:00 2024-04-30T00:00"),
        (3, "UTC", when("2023-11-30T06:30"), "2023-11-30T06:30 2024-02-29T06:30 2024-05-30T06:30"),
        (12, "UTC", date(2024, 2, 29), "2024-02-29T00:00 2025-02-28T00:00 2026-02-28T00:00"),
        # the wall clock stays; in a missing hour it fires at its end
        (1, BERLIN, when("2024-01-31T01:30"), "2024-01-31T01:30 2024-02-29T01:30 2024-03-31T01:00"),
        (1, BERLIN, date(2024, 3, 1), "2024-02-29T23:00 2024-03-31T22:00 2024-04-30T22:00"),
    ],
)
def test_every_months_counts_from_the_start_date(months: int, zone: str, start: date, times: str) -> None:
    table = Timetable(every_months=months, timezone=zone, start_date=start)
    expected = [when(each) for each in times.split()]
    assert (
        list(islice(table.times(when("2000-01-01T00:00"), when("2100-01-01T00:00")), len(expected)))
        == expected
    )
    for one, other in pairwise(expected):
        assert table.after(one) == other
        assert table.after(other - timedelta(seconds=1)) == other
    assert table.after(when("2090-01-01T00:00")) is not None


def test_instants_limit_and_anchor_times() -> None:
    start, end = when("2024-05-01T10:00:07"), when("2024-05-01T10:00:22")
    every = Timetable(every_seconds=5, start_date=start, end_date=end)
    found = list(every.times(when("2024-01-01T00:00"), when("2025-01-01T00:00")))
    assert [each.second for each in found] == [7, 12, 17, 22]
    minutely = Timetable(cron="* * * * *", start_date=start, end_date=when("2024-05-01T10:02:00"))
    assert fired(minutely, "2024-01-01T00:00", "2025-01-01T00:00") == ["01 10:01", "01 10:02"]


def test_listed_times_fire_once_in_order() -> None:
    listed = (when("2024-05-03T00:00"), when("2024-05-01T00:00"), when("2024-05-03T00:00"))
    table = Timetable(at_times=listed)
    assert fired(table, "2024-01-01T00:00", "2025-01-01T00:00") == ["01 00:00", "03 00:00"]
    assert table.after(when("2024-05-03T00:00")) is None


@pytest.mark.parametrize(
    "table",
    [
        Timetable(cron="0 12 * * *", start_date=date(2024, 5, 1), max_times=3),
        Timetable(every_seconds=86_400, start_date=when("2024-05-01T12:00"), max_times=3),
        Timetable(cron="rate(1 day)", start_date=when("2024-05-01T12:00"), max_times=3),
    ],
)
def test_the_number_of_times_is_limited(table: Timetable) -> None:
    expected = ["01 12:00", "02 12:00", "03 12:00"]
    assert fired(table, "2000-01-01T00:00", "2030-01-01T00:00") == expected
    assert fired(table, "2024-05-02T00:00", "2030-01-01T00:00") == expected[1:]
    assert table.after(when("2024-05-03T12:00")) is None


def test_the_end_date_applies_before_the_maximum_number() -> None:
    table = Timetable(cron="0 12 * * *", start_date=date(2024, 5, 1), end_date=date(2024, 5, 2), max_times=9)
    assert fired(table, "2000-01-01T00:00", "2030-01-01T00:00") == ["01 12:00", "02 12:00"]


def test_a_single_time_fires_once() -> None:
    moment = when("2024-05-01T12:00:00.250")
    once = Timetable(at=moment.astimezone(ZoneInfo(BERLIN)), timezone=BERLIN)
    assert once.after(moment - timedelta(microseconds=1)) == moment
    assert once.after(moment) is None
    assert list(once.times(moment, moment + timedelta(microseconds=1))) == [moment]
    assert list(once.times(moment - timedelta(days=1), moment)) == []
    assert [found.tzinfo for found in once.times(moment, moment + timedelta(days=1))] == [UTC]


@pytest.mark.parametrize(
    ("cron", "moment", "following"),
    [
        ("0 0 29 2 *", "2023-03-01T00:00", "2024-02-29T00:00"),
        ("0 0 29 2 *", "2096-02-29T00:00", "2104-02-29T00:00"),
        ("0 0 * 2 mon#5", "2084-03-01T00:00", "2112-02-29T00:00"),
        ("0 * 29 2 *", "2096-03-01T00:00", "2104-02-29T00:00"),
        ("0 0 L * *", "2024-02-01T00:00", "2024-02-29T00:00"),
        ("0 0 15,L * *", "2023-02-15T00:00", "2023-02-28T00:00"),
        ("0 0 * * sat#2", "2024-05-01T00:00", "2024-05-11T00:00"),
        ("0 0 * * L5", "2024-05-01T00:00", "2024-05-31T00:00"),
        ("0 0 * * 0", "2024-05-01T00:00", "2024-05-05T00:00"),
        ("0 0 * * 7", "2024-05-01T00:00", "2024-05-05T00:00"),
        ("0 0 * * SUN", "2024-05-01T00:00", "2024-05-05T00:00"),
        ("0 0 1 JAN *", "2024-05-01T00:00", "2025-01-01T00:00"),
        ("@weekly", "2024-05-01T00:00", "2024-05-05T00:00"),
        ("@monthly", "2024-05-01T00:00", "2024-06-01T00:00"),
        ("@yearly", "2024-05-01T00:00", "2025-01-01T00:00"),
        ("@annually", "2024-05-01T00:00", "2025-01-01T00:00"),
        ("@midnight", "2024-05-01T00:00", "2024-05-02T00:00"),
        ("@hourly", "2024-05-01T00:00", "2024-05-01T01:00"),
    ],
)
def test_the_next_time_is_found(cron: str, moment: str, following: str) -> None:
    assert cron_fault(cron) is None
    assert Timetable(cron=cron).after(when(moment)) == when(following)


@pytest.mark.parametrize(
    ("cron", "days"),
    [
        (
            "0 0 1,15 * fri",
            ["01 00:00", "03 00:00", "10 00:00", "15 00:00", "17 00:00", "24 00:00", "31 00:00"],
        ),
        ("0 0 1 * sat#2", ["01 00:00", "11 00:00"]),
        ("0 0 15 * L5", ["15 00:00", "31 00:00"]),
        ("0 0 L * 1-7/6", [f"{day:02} 00:00" for day in (5, 6, 12, 13, 19, 20, 26, 27, 31)]),
    ],
)
def test_either_day_matches_if_both_are_restricted(cron: str, days: list[str]) -> None:
    assert cron_fault(cron) is None
    assert fired(Timetable(cron=cron), "2024-05-01T00:00", "2024-06-01T00:00") == days


@pytest.mark.parametrize(
    "table",
    [
        Timetable(cron="@daily"),
        Timetable(cron="* * * * *", timezone=NEW_YORK),
        Timetable(cron="0 0 29 2 *", timezone=LORD_HOWE),
        Timetable(cron="59 23 31 12 *", timezone=NEW_YORK),
        Timetable(cron="59 * 31 12 *", timezone=NEW_YORK),
        Timetable(every_seconds=10 * 366 * 86_400),
        Timetable(every_seconds=1, timezone=KOLKATA, start_date=date(9999, 11, 30)),
        Timetable(cron="@daily", end_date=date.max),
        Timetable(cron="* * * * *", timezone=NEW_YORK, start_date=date.max),
        Timetable(at=datetime.max.replace(tzinfo=UTC)),
    ],
)
def test_no_time_follows_the_last_year(table: Timetable) -> None:
    assert table.after(datetime.max.replace(tzinfo=UTC)) is None
    assert table.after(datetime.max.replace(tzinfo=ZoneInfo(NEW_YORK))) is None
    nearly = when("9999-11-30T23:59:59.000001")
    assert list(table.times(nearly, datetime.max.replace(tzinfo=UTC))) == []


@pytest.mark.parametrize("zone", ZONES)
def test_times_are_found_in_the_first_year(zone: str) -> None:
    earliest = datetime.min.replace(tzinfo=UTC)
    for table in (
        Timetable(cron="@daily", timezone=zone, start_date=date.min),
        Timetable(cron="@hourly", timezone=zone),
        Timetable(every_seconds=60, timezone=zone, start_date=date.min),
    ):
        found = table.after(earliest)
        assert found is not None
        assert found.year <= 2


@pytest.mark.parametrize(
    "table",
    [
        Timetable(cron="0 0 30 2 *"),
        Timetable(cron="* * 30 2 *", timezone=BERLIN),
        Timetable(cron="@daily", end_date=date(1950, 1, 1)),
        Timetable(cron="@daily", end_date=date.min),
        Timetable(cron="@daily", start_date=date(2025, 1, 2), end_date=date(2025, 1, 1)),
        Timetable(cron="0 0 29 2 *", start_date=date(2025, 1, 1), end_date=date(2027, 12, 31)),
        Timetable(every_seconds=60, end_date=date(1950, 1, 1)),
    ],
)
def test_timetables_without_a_time_never_fire(table: Timetable) -> None:
    assert table.after(when("2024-01-01T00:00")) is None
    assert list(table.times(when("2000-01-01T00:00"), when("2400-01-01T00:00"))) == []


@pytest.mark.parametrize(
    "wrong",
    [
        *({}, {"cron": "@daily", "every_seconds": 5}, {"every_seconds": 0}, {"every_seconds": -1}),
        {"every_seconds": 5, "every_months": 1},
    ],
)
def test_a_timetable_requires_one_kind_of_time(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="every_seconds"):
        Timetable(**wrong)


EXPRESSIONS = [
    "0 9 * * *",
    "30 23 * * 1-5",
    "0 0 1 * *",
    "15 4 1,15 * *",
    "0 0 * * 7",
    "5 */6 * * *",
    "20 * 5-25/10 * *",
    "*/20 8-10 * 2,6,OCT *",
    "0 12 13 * FRI",
    "0 6 1-31/9 * 0,3",
    "59 23 L * *",
    "0 0 * * SAT#2,TUE#5",
    "*/25 7 * JAN-DEC/3 MON-FRI/2",
    "0 0 31 * *",
]


def without_clock_changes(zone: ZoneInfo, times: Iterator[datetime]) -> list[datetime]:
    def has_24_hours(day: date) -> bool:
        midnight = datetime(day.year, day.month, day.day, tzinfo=zone)
        return midnight.utcoffset() == (midnight + timedelta(days=1)).utcoffset()

    return [found.astimezone(UTC) for found in times if has_24_hours(found.astimezone(zone).date())]


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("cron", EXPRESSIONS)
def test_a_year_without_clock_changes_agrees_with_cronsim(cron: str, zone: str) -> None:
    table, place = Timetable(cron=cron, timezone=zone), ZoneInfo(zone)
    start, end = datetime(2023, 12, 31, tzinfo=place), datetime(2025, 1, 1, tzinfo=place)
    other = takewhile(lambda found: found < end, CronSim(cron, start - timedelta(minutes=1)))
    ours = without_clock_changes(place, table.times(start, end))
    assert ours == without_clock_changes(place, other)
    assert len(ours) > 5


def test_a_shared_expression_is_not_modified() -> None:
    (shared,) = cron_module.parse_cron("17 3 * * *").parts
    before = dict(vars(shared))
    assert Timetable(cron="17 3 * * *").after(when("2024-01-01T00:00")) == when("2024-01-01T03:17")
    assert vars(shared) == before


def test_the_import_does_not_load_croniter() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, shardmill.model.time.timetable; print('croniter' in sys.modules)",
        ],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stdout.strip() == "False"
