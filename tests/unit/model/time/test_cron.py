"""Cron expressions that are accepted, and the faults of those that are rejected."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from shardmill.model.time import cron as cron_module
from shardmill.model.time.cron import cron_fault
from shardmill.model.time.timetable import Timetable

FINE = [
    *("@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually"),
    "* * * * *",
    "*/5 * * * *",
    "0 0 29 2 *",
    "0 9-17/2 * * mon-fri",
    "0 0 1,15,L * *",
    "0,30 0-4,22-23 * JAN,jul *",
    "0 0 * * 0,7",
    "0 0 * * 0-7",
    "0 0 * * 5-7",
    "0 0 * * fri-sun",
    "0 0 * * MON#1,5#3,L5",
    "0 0 */2 * *",
    "0 0 * * */2",
    "0 0 31 1,2 *",
    "0 0 1-31/2 * mon",
    "05 007 * * *",
    "0\t0  *  *  *",
]

FAULTS = [
    # not a cron expression
    ("", "bad-cron", "5 fields"),
    ("  ", "bad-cron", "5 fields"),
    ("* * * *", "bad-cron", "5 fields"),
    ("* * * * * * * *", "bad-cron", "5 fields"),
    ("0 * * * * *", "bad-cron", "write cron(…)"),
    ("0 0 * * * * 2024", "bad-cron", "write cron(…)"),
    ("@reboot", "bad-cron", "@daily"),
    ("@every 5m", "bad-cron", "@daily"),
    ("@Daily", "bad-cron", "@daily"),
    ("0 0 ? * mon", "bad-cron", "write *"),
    ("H H * * *", "bad-cron", "H or R"),
    ("0 r(2-4) * * *", "bad-cron", "H or R"),
    ("0,H/5 * * * *", "bad-cron", "H or R"),
    ("0 0 * * *\n", "bad-cron", "character"),
    ("0 0 * * mon\u00a0", "bad-cron", "character"),
    ("\u0663 * * * *", "bad-cron", "character"),
    ("0 0 {x} * *", "bad-cron", "character"),
    ("60 * * * *", "bad-cron", "minute: 60 is not in the range 0 to 59"),
    ("0 24 * * *", "bad-cron", "hour: 24 is not in the range 0 to 23"),
    ("0 0 0 * *", "bad-cron", "day of month: 0 is not in the range 1 to 31"),
    ("0 0 1 13 *", "bad-cron", "month: 13 is not in the range 1 to 12"),
    ("0 0 * * 8", "bad-cron", "day of week: 8 is not in the range 0 to 7"),
    ("0 0 * * 1-9", "bad-cron", "day of week: 1-9 is not in the range 0 to 7"),
    ("0 0 * mon *", "bad-cron", "month: mon is not in the range"),
    ("0 0 * * xyz", "bad-cron", "day of week: xyz is not in the range"),
    ("0 0 * * monday", "bad-cron", "'monday' is not valid"),
    ("0 0 * * mon#6", "bad-cron", "'mon#6' is not valid"),
    ("0 0 * * mon-fri#1", "bad-cron", "'mon-fri#1' is not valid"),
    ("0 0 * * 5L", "bad-cron", "'5l' is not valid in five fields, only in cron(…)"),
    ("0 0 * * L", "bad-cron", "'l' is not valid"),
    ("0 0 15W * *", "bad-cron", "'15w' is not valid in five fields, only in cron(…)"),
    ("0 0 LW * *", "bad-cron", "only in cron(…) or quartz(…)"),
    ("0 0 L-3 * *", "bad-cron", "only in cron(…) or quartz(…)"),
    ("0 0 * * friL", "bad-cron", "only in cron(…) or quartz(…)"),
    ("0 0 10-L * *", "bad-cron", "'10-l' is not valid"),
    ("L * * * *", "bad-cron", "minute: 'l' is not valid"),
    ("0 0 1#1 * *", "bad-cron", "day of month: '1#1' is not valid"),
    ("1,,2 * * * *", "bad-cron", "'' is not valid"),
    ("5--7 * * * *", "bad-cron", "'5--7' is not valid"),
    ("*-7 * * * *", "bad-cron", "*-7 is not valid"),
    ("*/0 * * * *", "bad-cron", "*/0 is not valid"),
    ("*/5/2 * * * *", "bad-cron", "'*/5/2' is not valid"),
    pytest.param("9" * 5_000 + " * * * *", "bad-cron", "is not valid", id="huge"),
    ("0 0 * * mon,sat#2", "bad-cron", "sat#2 cannot be combined"),
    ("0 0 * * *,sat#2", "bad-cron", "sat#2 cannot be combined"),
    # interpreted differently by cron implementations
    ("59/15 * * * *", "ambiguous-cron", "write 59"),
    ("14/15 * * * *", "ambiguous-cron", "write 14-59/15"),
    ("0 8/4 * * *", "ambiguous-cron", "write 8-23/4"),
    ("0 0 1/10 * *", "ambiguous-cron", "write 1-31/10"),
    ("0 0 * * mon/2", "ambiguous-cron", "write mon-6/2"),
    ("5-5 * * * *", "ambiguous-cron", "write 5"),
    ("59-59/15 * * * *", "ambiguous-cron", "write 59"),
    ("0 0 * jan-jan *", "ambiguous-cron", "write jan"),
    ("0 0 * * sun-sun", "ambiguous-cron", "write sun"),
    ("0 0 * * 7-sun", "ambiguous-cron", "write 7"),
    ("0 22-2 * * *", "ambiguous-cron", "one to 23 and one from 0"),
    ("0 0 * nov-feb *", "ambiguous-cron", "one to 12 and one from 1"),
    ("0 0 * * fri-mon", "ambiguous-cron", "one to 6 and one from 0"),
    ("0 0 * * 6-0", "ambiguous-cron", "one to 6 and one from 0"),
    ("0 0 * * 7-3", "ambiguous-cron", "one to 6 and one from 0"),
    ("*/90 * * * *", "ambiguous-cron", "write 0"),
    ("0 */24 * * *", "ambiguous-cron", "write 0"),
    ("10-20/30 * * * *", "ambiguous-cron", "write 10"),
    ("*,5 * * * *", "ambiguous-cron", "* alone"),
    ("0 0 */2 * mon", "ambiguous-cron", "write 1-31/2"),
    ("0 0 1 * */2", "ambiguous-cron", "write 0-6/2"),
    # never fires
    ("0 0 31 2 *", "impossible-date", "no such day"),
    ("0 0 30 2 *", "impossible-date", "no such day"),
    ("* * 30-31 feb *", "impossible-date", "no such day"),
    ("0 0 31 2,4,6,9,11 *", "impossible-date", "no such day"),
    ("0 0 31 2 mon", "impossible-date", "no such day"),
]


@pytest.mark.parametrize("cron", FINE)
def test_valid_expressions_are_accepted(cron: str) -> None:
    assert cron_fault(cron) is None
    assert Timetable(cron=cron).after(datetime(2024, 1, 1, tzinfo=UTC)) is not None


@pytest.mark.parametrize(("cron", "code", "message"), FAULTS)
def test_invalid_expressions_are_rejected(cron: str, code: str, message: str) -> None:
    fault = cron_fault(cron)
    assert fault is not None
    assert fault[0] == code
    assert message in fault[1]
    # messages are formatted as templates and shown to users
    assert "{" not in fault[1]
    assert len(fault[1]) < 150


def test_an_expression_that_croniter_rejects_is_invalid(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(text: str) -> None:
        raise ValueError(text)

    monkeypatch.setattr(cron_module, "parse_cron", refuse)
    assert cron_fault("0 0 * * *") == ("bad-cron", "is not a valid cron expression")
