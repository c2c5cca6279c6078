"""The meaning of expressions and schedules in words."""

from __future__ import annotations

from typing import Any

import pytest

from shardmill.model.time.meaning import describe_expression, describe_schedule
from shardmill.model.time.schedule import check_schedule

WEEKDAY = "on the weekday (Monday to Friday) nearest to"

EXPRESSIONS = [
    ("* * * * *", "every minute"),
    ("*/5 * * * *", "every 5 minutes"),
    ("30 * * * *", "at minute 30 of every hour"),
    ("15,45 * * * sat,sun", "at minutes 15 and 45 of every hour on Saturday and Sunday"),
    ("*/7 * * * *", "at minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56 of every hour"),
    ("0 */2 * * *", "every 2 hours"),
    ("*/20 9-17 * 1,3-6 *", "every 20 minutes of hours 9 to 17 in January and March to June"),
    ("30 2 * * *", "at 02:30 every day"),
    ("0 9-17/2 * * mon-fri", "at 09:00, 11:00, 13:00, 15:00 and 17:00 on Monday to Friday"),
    ("0 0 1,15 * fri", "at 00:00 on days 1 and 15 of the month or on Friday"),
    ("0 0 * * mon#1", "at 00:00 on the first Monday of the month"),
    ("0 0 * * L5", "at 00:00 on the last Friday of the month"),
    ("0 0 L * *", "at 00:00 on the last day of the month"),
    ("@daily", "at 00:00 every day"),
    ("@hourly", "every hour"),
    ("@weekly", "at 00:00 on Sunday"),
    ("@yearly", "at 00:00 on day 1 of the month in January"),
    ("rate(1 minute)", "every minute"),
    ("rate(5 minutes)", "every 5 minutes"),
    ("rate(90 minutes)", "every 90 minutes"),
    ("rate(24 hours)", "every day"),
    ("at(2026-11-20T13:00:00)", "once, at 2026-11-20 13:00:00"),
    ("cron(0 18 ? * MON-FRI *)", "at 18:00 on Monday to Friday"),
    ("cron(0 18 ? * 2-6 2026,2027)", "at 18:00 on Monday to Friday in 2026 and 2027"),
    ("cron(0 10 * * ? *)", "at 10:00 every day"),
    ("cron(0 8 1 1 ? 2027/2)", "at 08:00 on day 1 of the month in January every 2 years from 2027"),
    ("cron(0/30 20-2 ? * MON-FRI *)", "every 30 minutes of hours 0 to 2 and 20 to 23 on Monday to Friday"),
    ("quartz(0/5 * * * * ?)", "every 5 seconds"),
    ("quartz(* * * * * ? 2026-2028)", "every second in 2026 to 2028"),
    ("quartz(0,30 0 * * * ?)", "every 30 seconds of minute 0 of every hour"),
    ("quartz(10 5 0-8 * * ?)", "at second 10 of minute 5 of hours 0 to 8"),
    ("quartz(30 * * * * ?)", "at second 30 of every minute"),
    ("quartz(30 * 9 * * ?)", "at second 30 of every minute of hour 9"),
    ("quartz(5,20 * 9-17 ? * MON)", "at seconds 5 and 20 of every minute of hours 9 to 17 on Monday"),
    ("quartz(0/7 * * * * ?)", "at seconds 0, 7, 14, 21, 28, 35, 42, 49 and 56 of every minute"),
    ("quartz(20 0/10 * * * ?)", "at second 20 of every 10 minutes"),
    ("quartz(0/20 * 8 * * ?)", "every 20 seconds of hour 8"),
    ("quartz(15 30 6 ? * 1)", "at 06:30:15 on Sunday"),
    ("quartz(0 0 0 ? * FRI-MON)", "at 00:00 on Monday and Friday to Sunday"),
    ("quartz(0 0 0 ? * L)", "at 00:00 on Saturday"),
    ("quartz(0 0 0 ? * 5L)", "at 00:00 on the last Thursday of the month"),
    ("quartz(0 0 0 ? * 6#3)", "at 00:00 on the third Friday of the month"),
    ("quartz(0 0 0 L-3 * ?)", "at 00:00 on the day 3 days before the last day of the month"),
    ("quartz(0 0 0 15W * ?)", f"at 00:00 {WEEKDAY} day 15 of the month"),
    ("quartz(0 0 0 LW * ?)", f"at 00:00 {WEEKDAY} the last day of the month"),
    (
        "quartz(0 0 0 L-1W 12 ?)",
        f"at 00:00 {WEEKDAY} the day 1 day before the last day of the month in December",
    ),
]


@pytest.mark.parametrize(("expression", "meaning"), EXPRESSIONS)
def test_expressions_are_described_in_words(expression: str, meaning: str) -> None:
    assert describe_expression(expression) == meaning


@pytest.mark.parametrize(
    ("document", "meaning"),
    [
        ({"everySeconds": 5}, "every 5 seconds"),
        ({"everySeconds": 1, "timezone": "Asia/Tokyo"}, "every second"),
        ({"everySeconds": 7200}, "every 2 hours"),
        ({"delaySeconds": 300, "maxTimes": 3}, "5 minutes after the end of the previous job, 3 times"),
        ({"everyMonths": 1, "startDate": "2026-01-31"}, "every month from 2026-01-31"),
        (
            {"everyMonths": 3, "startDate": "2026-01-31T06:00:00Z", "maxTimes": 4, "timezone": "Asia/Tokyo"},
            "every 3 months from 2026-01-31 06:00:00 UTC, 4 times, Asia/Tokyo time",
        ),
        ({"times": ["2026-01-31T06:00:00Z", "2026-02-03T06:00:00Z"]}, "at 2 listed times"),
        ({"times": ["2026-01-31T06:00:00Z", "2026-01-31T07:00:00+01:00"]}, "at 1 listed time"),
        (
            {"everySeconds": 5, "startDate": "2026-01-31T06:00:00Z", "endDate": 20260201},
            "every 5 seconds, from 2026-01-31 06:00:00 UTC, until 2026-02-01",
        ),
        ({"at": "2026-11-20T13:00:00+01:00"}, "once, at 2026-11-20 12:00:00 UTC"),
        (
            {
                "cron": "30 2 * * *",
                "timezone": "Europe/Berlin",
                "startDate": 20260101,
                "endDate": "2026-12-31",
            },
            "at 02:30 every day, from 2026-01-01, until 2026-12-31, Europe/Berlin time",
        ),
    ],
)
def test_schedules_are_described_in_words(document: dict[str, Any], meaning: str) -> None:
    schedule, faults = check_schedule(document, "report", "s")
    assert schedule, faults
    assert describe_schedule(schedule) == meaning
