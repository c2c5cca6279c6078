"""EventBridge's and Quartz's expressions: accepted and rejected forms, and a year compared with libraries."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import takewhile

import pytest
from croniter import croniter
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st
from pyawscron import AWSCron

from shardmill.model.time.calendar_times import Calendar
from shardmill.model.time.cron import cron_fault
from shardmill.model.time.cron_dialects import read_five_fields
from shardmill.model.time.schedule_expression import expression_fault, parse_expression
from shardmill.model.time.timetable import Timetable

BEGIN, END = datetime(2027, 1, 1, tzinfo=UTC), datetime(2028, 3, 1, tzinfo=UTC)
MONTHS = 14


def times(expression: str, start: datetime = BEGIN, end: datetime = END) -> list[datetime]:
    assert expression_fault(expression) is None
    return list(Timetable(cron=expression).times(start, end))


def days(expression: str) -> list[str]:
    return [f"{found:%d.%m}" for found in times(expression)]


EVENTBRIDGE = [
    "0 18 ? * MON-FRI *",
    "0 10 * * ? *",
    "15 12 ? * * *",
    "0 8 1 * ? *",
    "0/15 9-10 * * ? *",
    "0/10 20 ? * MON-FRI *",
    "0 9 ? * 2#1 *",
    "0 9 ? * FRI#3 *",
    "30 17 L * ? *",
    "0 12 3W * ? *",
    "0 12 15W 1-6 ? *",
    "0 0 ? * 6L *",
    "0 0 ? * 1,7 *",
    "5,35 14 ? JAN,JUL-SEP SAT,SUN 2027",
    "0 6 1,15 */3 ? 2026-2030",
]


@pytest.mark.parametrize("fields", EVENTBRIDGE)
def test_fourteen_months_agree_with_pyawscron(fields: str) -> None:
    first = BEGIN - timedelta(minutes=1)
    other = [each for each in AWSCron.get_all_schedule_bw_dates(first, END, fields) if BEGIN <= each < END]
    ours = times(f"cron({fields})")
    assert ours == other
    assert ours


# Quartz's fields, and the same with weekdays as the libraries number them, from Sunday as 0.
QUARTZ = [
    ("0 0 18 ? * MON-FRI", "0 0 18 * * MON-FRI"),
    ("15 30 6 ? * 2-6", "15 30 6 * * 1-5"),
    ("0/20 59 23 1 * ?", "0-59/20 59 23 1 * *"),
    ("0 0 0 ? * 6#3", "0 0 0 * * 5#3"),
    ("0 0 0 ? * 1#5", "0 0 0 * * 0#5"),
    ("0 0/30 8-9 5,20 * ?", "0 0-59/30 8-9 5,20 * *"),
    ("0 0 0 L * ?", "0 0 0 L * *"),
    ("10 5 0 ? JAN-MAR/2 SAT", "10 5 0 * 1-3/2 6"),
]


@pytest.mark.parametrize(("fields", "same"), QUARTZ)
def test_fourteen_months_agree_with_croniter_and_cronsim(fields: str, same: str) -> None:
    ours = times(f"quartz({fields})")
    before = BEGIN - timedelta(seconds=1)
    iterator = croniter(same, before, second_at_beginning=True)
    assert ours == list(takewhile(lambda found: found < END, iterator.all_next(datetime)))
    assert ours == list(takewhile(lambda found: found < END, CronSim(same, before)))
    assert ours


def test_the_last_and_the_nearest_weekday_agree_with_the_libraries() -> None:
    before = BEGIN - timedelta(seconds=1)
    last = takewhile(lambda found: found < END, CronSim("0 0 LW * *", before))
    assert times("quartz(0 0 0 LW * ?)") == list(last)
    for day in (1, 2, 15, 16, 28):
        nearest = croniter(f"0 0 {day}W * *", before).all_next(datetime)
        assert times(f"quartz(0 0 0 {day}W * ?)") == list(takewhile(lambda found: found < END, nearest))
    for weekday in range(7):
        last = takewhile(lambda found: found < END, CronSim(f"0 0 * * {weekday}L", before))
        assert times(f"quartz(0 0 0 ? * {weekday + 1}L)") == list(last)


FIVE_FIELDS = st.tuples(
    st.sampled_from(["0", "*/20", "5,50", "10-12", "3-40/9"]),
    st.sampled_from(["*", "0", "*/7", "2,22", "9-17"]),
    st.sampled_from(["*", "1", "L", "1,15,L", "13", "*/9", "10-31/10"]),
    st.sampled_from(["*", "1", "feb", "jan-jun/2", "4,11"]),
    st.sampled_from(["*", "0", "7", "mon-fri", "fri-sun", "1-7/6", "mon#1", "5#3,sat#5", "L5"]),
).map(" ".join)


@given(FIVE_FIELDS, st.integers(0, 366 * 1440))
def test_five_fields_agree_with_croniter(fields: str, minutes: int) -> None:
    """The words of `next` come from the same calendar, so they describe what croniter computes."""
    if cron_fault(fields):
        return
    calendar, start = read_five_fields(fields), BEGIN + timedelta(minutes=minutes)
    table = Timetable(cron=fields)
    for _ in range(5):
        found = table.after(start - timedelta(seconds=1))
        ours = calendar.first(start)
        assert ours is not None
        assert ours.replace(tzinfo=UTC) == found
        start = ours.replace(tzinfo=UTC) + timedelta(minutes=1)


def test_days_count_back_from_the_end_of_the_month() -> None:
    assert days("quartz(0 0 0 L-3 * ?)")[:3] == ["28.01", "25.02", "28.03"]
    assert days("quartz(0 0 0 L-30 * ?)")[:3] == ["01.01", "01.03", "01.05"]
    # 29 January is a Friday; 26 February too; 29 March is a Monday; 28 April a Wednesday
    assert days("quartz(0 0 0 L-2W * ?)")[:4] == ["29.01", "26.02", "29.03", "28.04"]
    assert days("cron(0 0 L-1 5 ? *)") == ["30.05"]


def test_sunday_is_1_and_ranges_wrap_in_quartz() -> None:
    assert {f"{found:%a}" for found in times("quartz(0 0 0 ? * 1)")} == {"Sun"}
    assert {f"{found:%a}" for found in times("quartz(0 0 0 ? * 5L)")} == {"Thu"}
    assert {f"{found:%a}" for found in times("quartz(0 0 0 ? * FRI-MON)")} == {"Fri", "Sat", "Sun", "Mon"}
    assert [found.hour for found in times("quartz(0 0 22-2 1 1 ? 2027)")] == [0, 1, 2, 22, 23]
    assert {found.month for found in times("quartz(0 0 0 1 NOV-FEB ?)")} == {1, 2, 11, 12}


def test_ranges_of_hours_wrap_in_eventbridge() -> None:
    """An example of AWS's documentation: the hours after midnight belong to the days that are named."""
    found = times("cron(0/30 20-2 ? * MON-FRI *)", BEGIN, BEGIN + timedelta(days=7))  # from a Friday on
    assert {each.hour for each in found} == {20, 21, 22, 23, 0, 1, 2}
    assert {f"{each:%a}" for each in found} == {"Mon", "Tue", "Wed", "Thu", "Fri"}
    assert found == times("cron(0/30 0-2,20-23 ? * MON-FRI *)", BEGIN, BEGIN + timedelta(days=7))


def test_expressions_end_with_their_last_year() -> None:
    assert days("quartz(0 0 0 1 1 ? 2027)") == ["01.01"]
    assert Timetable(cron="quartz(0 0 0 1 1 ? 2027)").after(BEGIN) is None
    assert Timetable(cron="cron(0 0 1 1 ? 2020)").after(BEGIN) is None


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("rate(1 minute)", "2027-01-01T00:01"),
        ("rate(5 minutes)", "2027-01-01T00:05"),
        ("rate(12 hours)", "2027-01-01T12:00"),
        ("rate( 1  day )", "2027-01-02T00:00"),
        ("at(2027-02-03T04:05:06)", "2027-02-03T04:05:06"),
        ("  quartz( 30 0 0 * * ? * ) ", "2027-01-01T00:00:30"),
        ("quartz(/15 * * * * ?)", "2027-01-01T00:00:15"),
    ],
)
def test_the_next_time_is_found(expression: str, found: str) -> None:
    assert expression_fault(expression) is None
    assert Timetable(cron=expression).after(BEGIN) == datetime.fromisoformat(found).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("expression", "zone", "start", "expected"),
    [
        # fixed hours: once in the repeated hour, at the end of the missing one
        ("quartz(0 30 2 * * ?)", "Europe/Berlin", "2024-03-31", ["01:00:00"]),
        ("quartz(0/20 30 2 * * ?)", "Europe/Berlin", "2024-03-31", ["01:00:00"]),
        ("quartz(30 30 2 * * ?)", "Europe/Berlin", "2024-10-27", ["00:30:30"]),
        ("cron(30 2 ? * SUN *)", "Europe/Berlin", "2024-10-27", ["00:30:00"]),
        ("cron(30 2 31 3 ? *)", "Europe/Berlin", "2024-03-31", ["01:00:00"]),
        # wildcard hours follow elapsed time; 0/12 is */12
        ("quartz(0 30 * 27 10 ? 2024)", "Europe/Berlin", "2024-10-27", [f"{h:02}:30:00" for h in range(23)]),
        ("cron(0 0/12 * * ? *)", "Europe/Berlin", "2024-10-27", ["11:00:00", "23:00:00"]),
        # at(…) is local: in the missing hour it fires at its end, in the repeated hour the first time
        ("at(2024-03-31T02:30:00)", "Europe/Berlin", "2024-03-31", ["01:00:00"]),
        ("at(2024-10-27T02:30:00)", "Europe/Berlin", "2024-10-27", ["00:30:00"]),
    ],
)
def test_clock_changes_are_respected(expression: str, zone: str, start: str, expected: list[str]) -> None:
    assert expression_fault(expression) is None
    day = datetime.fromisoformat(start).replace(tzinfo=UTC)
    found = Timetable(cron=expression, timezone=zone).times(day, day + timedelta(days=1))
    assert [f"{each:%H:%M:%S}" for each in found] == expected


FAULTS = [
    ("cron(0 18 * * *)", "bad-cron", "must have 6 fields"),
    ("cron(0 18 ? * MON-FRI * *)", "bad-cron", "must have 6 fields"),
    ("quartz(0 18 ? * MON-FRI)", "bad-cron", "must have 6 or 7 fields"),
    ("cron(0 18 * * * *)", "bad-cron", "needs ? in one of the two day fields"),
    ("cron(0 18 ? * ? *)", "bad-cron", "needs ? in one of the two day fields"),
    ("quartz(0 0 18 1 * MON)", "bad-cron", "needs ? in one of the two day fields"),
    ("quartz(0 0 ? 1 * ?)", "bad-cron", "hour: '?' is not valid"),
    ("cron(60 18 ? * 2 *)", "bad-cron", "minute: 60 is not in the range 0 to 59"),
    ("cron(0 18 ? * 0 *)", "bad-cron", "day of week: 0 is not in the range 1 to 7"),
    ("cron(0 18 ? * 8L *)", "bad-cron", "day of week: 8l is not in the range 1 to 7"),
    ("cron(0 18 ? * XYZ#2 *)", "bad-cron", "xyz#2 is not in the range"),
    ("cron(0 18 ? * 3#6 *)", "bad-cron", "'3#6' is not valid"),
    ("cron(0 18 ? * 3#1,6#3 *)", "bad-cron", "3#1 must stand alone"),
    ("quartz(0 0 0 1,L * ?)", "bad-cron", "l must stand alone"),
    ("quartz(0 0 0 1-15W * ?)", "bad-cron", "'1-15w' is not valid"),
    ("quartz(0 0 0 0W * ?)", "bad-cron", "0w is not in the range 1W to 31W"),
    ("quartz(0 0 0 L-31 * ?)", "bad-cron", "L-1 to L-30"),
    ("quartz(0 0 0 5C * ?)", "bad-cron", "'5c' is not valid"),
    ("quartz(0 0 0 1 * ? 1969)", "bad-cron", "year: 1969 is not in the range 1970 to 2199"),
    ("quartz(0 0 0 1 * ? 2030-2027)", "ambiguous-cron", "write two ranges"),
    ("quartz(0 0 0 31W * ?)", "ambiguous-cron", "write LW"),
    ("quartz(0 0 0 29W 2 ?)", "ambiguous-cron", "write LW"),
    ("quartz(0 0/90 * * * ?)", "ambiguous-cron", "the step of 0/90"),
    ("cron(0/0 18 ? * 2 *)", "ambiguous-cron", "the step of 0/0"),
    ("cron(50-10 22 * * ? *)", "ambiguous-cron", "write two ranges"),
    ("cron(0 22 * NOV-FEB ? *)", "ambiguous-cron", "write two ranges"),
    ("cron(0 0 ? * FRI-MON *)", "ambiguous-cron", "write two ranges"),
    ("cron(0 0 31 2 ? *)", "impossible-date", "no such day"),
    ("quartz(0 0 0 29 2 ? 2027)", "impossible-date", "no such day"),
    ("cron(, 0 1 * ? *)", "bad-cron", "minute: '' is not valid"),
    ("cron(*-5 0 1 * ? *)", "bad-cron", "minute: '*-5' is not valid"),
    ("rate(5)", "bad-cron", "rate(5 minutes)"),
    ("rate(0 minutes)", "bad-cron", "positive"),
    ("rate(30 seconds)", "bad-cron", "minutes, hours or days"),
    ("rate(1 minutes)", "bad-cron", "write rate(1 minute)"),
    ("rate(2 day)", "bad-cron", "write rate(2 days)"),
    ("rate(999999999 days)", "bad-cron", "at most ten years"),
    ("at(2026-11-20)", "bad-cron", "at(2026-11-20T13:00:00)"),
    ("at(2026-11-20T13:00:00Z)", "bad-cron", "without an offset"),
    ("at(0001-01-01T00:00:00)", "bad-cron", "at(2026-11-20T13:00:00)"),
    ("every(5 minutes)", "bad-cron", "must be cron(…)"),
    ("quartz()", "bad-cron", "must have 6 or 7 fields"),
    ("0 " * 300, "bad-cron", "at most 500 characters"),
]


@pytest.mark.parametrize(("expression", "code", "message"), FAULTS)
def test_invalid_expressions_are_rejected(expression: str, code: str, message: str) -> None:
    fault = expression_fault(expression)
    assert fault is not None
    assert fault[0] == code
    assert message in fault[1]
    assert "{" not in fault[1]
    assert len(fault[1]) < 150


@given(
    st.sampled_from(["cron", "quartz", "rate", "at"]),
    st.text("0123456789*/,-#?LWMONFRI minutes:T", max_size=30),
)
def test_any_text_is_read_or_rejected(name: str, text: str) -> None:
    expression = f"{name}({text})"
    if expression_fault(expression) is None:
        parsed = parse_expression(expression)
        assert Timetable(cron=expression).after(datetime(1970, 1, 1, tzinfo=UTC)) is not None
        assert not isinstance(parsed, Calendar) or parsed.days
