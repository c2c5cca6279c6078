"""A Schedule: when Jobs of a definition are to be started; and how far a Job's dependencies are."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from shardmill.model.base import Answer, Limit, Model, Name, Params, Seconds, Time

_MACROS = frozenset({"@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually"})
_FIELDS = re.compile(r"[\w*/,#?-]+( +[\w*/,#?-]+){4}\Z", re.ASCII)
_CHANCE = re.compile(r"(^|[ ,])[hr]([ ,(/]|\Z)", re.IGNORECASE)
_LEAP_START = datetime(2000, 1, 1, tzinfo=UTC)


def _cron(expression: str) -> str:
    # Only who saves a schedule pays for the import.
    from croniter import CroniterError, croniter

    if expression in _MACROS:
        return expression
    if not _FIELDS.match(expression) or _CHANCE.search(expression):
        raise PydanticCustomError("bad-cron", "must be a cron expression of 5 fields, or @daily and the like")
    try:
        croniter(expression, _LEAP_START).get_next()
    except CroniterError as error:
        raise PydanticCustomError(
            "bad-cron", "can never fire: {reason}", {"reason": str(error).replace("{", "(").replace("}", ")")}
        ) from None
    return expression


def _timezone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise PydanticCustomError("bad-timezone", "must be an IANA time zone such as Europe/Berlin") from None
    return name


def _day(value: Any) -> Any:
    text = str(value) if type(value) is int else value
    if not isinstance(text, str):
        return value
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise PydanticCustomError("bad-date", "must be a date such as 2020-01-21 or 20200121") from None


Day = Annotated[date, BeforeValidator(_day)]


class Schedule(Model):
    schedule_id: Name
    job_name: Name
    status: Literal[0, 1] = 1
    cron: Annotated[str, AfterValidator(_cron)] | None = None
    every_seconds: Limit | None = None
    at: Time | None = None
    timezone: Annotated[str, AfterValidator(_timezone)] = "UTC"
    start_date: Day | None = None
    end_date: Day | None = None
    overlap: Literal["allow", "skip", "queue", "replace"] = "allow"
    catch_up: Literal["none", "latest", "all"] = "latest"
    max_lateness_seconds: Seconds | None = None
    params: Params = Field(default_factory=dict)
    trigger_format: str | None = Field(default=None, min_length=1, max_length=64)
    update_user: str | None = None
    update_time: Time | None = None

    @model_validator(mode="after")
    def _one_kind_of_time(self) -> Self:
        if sum(each is not None for each in (self.cron, self.every_seconds, self.at)) != 1:
            raise PydanticCustomError("bad-value", "needs exactly one of cron, everySeconds and at")
        if self.start_date and self.end_date and self.end_date < self.start_date:
            raise PydanticCustomError("bad-value", "endDate must not be before startDate")
        return self


class DependencyStatus(Answer):
    """One run that a waiting Job expects of a parent, and whether it is there."""

    job_name: str
    trigger: str
    parent_name: str
    parent_trigger: str | None = None
    parent_id: str | None = None
    data_time: Time
    met: bool
    update_time: Time
