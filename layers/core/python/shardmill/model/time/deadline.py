"""The deadline of a job: a number of seconds after its start, or a time of day, whichever is earlier."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import Field, PlainValidator
from pydantic_core import PydanticCustomError

from shardmill.model.timestamps import from_ms, to_ms

_TIME_OF_DAY = re.compile(r"([01]\d|2[0-3]):[0-5]\d\Z", re.ASCII)


def _time_of_day(value: Any) -> str:
    if isinstance(value, str) and _TIME_OF_DAY.match(value):
        return value
    raise PydanticCustomError(
        "bad-time", "must be a time of day from 00:00 to 23:59 such as '06:30', in quotes in YAML"
    )


_Schema = Annotated[str, Field(pattern="^([01][0-9]|2[0-3]):[0-5][0-9]$")]
TimeOfDay = Annotated[str, PlainValidator(_time_of_day, json_schema_input_type=_Schema)]


def deadline(start: int, seconds: int | None, time_of_day: str, zone: str) -> int | None:
    """The deadline of a job that starts at `start`; times are milliseconds since 1970.

    `time_of_day`: the next such time in `zone`, as a schedule would fire it; empty for none.
    """
    found: list[int] = []
    if seconds is not None:
        found.append(start + seconds * 1000)
    if time_of_day:
        from shardmill.model.time.timetable import Timetable  # imported only where a time of day is given

        hour, minute = time_of_day.split(":")
        daily = Timetable(cron=f"{int(minute)} {int(hour)} * * *", timezone=zone or "UTC")
        upcoming = daily.after(from_ms(start))
        found += [to_ms(upcoming)] if upcoming else []
    return min(found, default=None)
