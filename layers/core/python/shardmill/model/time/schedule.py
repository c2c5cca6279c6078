"""Schedules of a definition, their firings, and backfills of past times."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from shardmill.model.base import (
    MAX_NAME,
    TRIGGER_PATTERN,
    Answer,
    Limit,
    Model,
    Name,
    Params,
    Request,
    Seconds,
    Time,
    whole_numbers,
)
from shardmill.model.fault import Fault, fault, faults_of, in_order
from shardmill.model.json_schema import EMPTY, NOT_EMPTY, Rule, absent, both, either, present, where
from shardmill.model.plain_json import plain_faults
from shardmill.model.time.cron import cron_fault
from shardmill.model.time.timetable import Timetable

MAX_TIMES = 10_000
MAX_PARALLEL = 100
DEFAULT_TRIGGER = "%Y%m%dT%H%M%SZ"

_TRIGGER = re.compile(TRIGGER_PATTERN[:-1] + r"\Z")
_TRIALS = [datetime(2026, 1, 1, 5, 4, 3, tzinfo=UTC), datetime(2026, 12, 31, 22, 59, 58, tzinfo=UTC)]


def _cron(expression: str) -> str:
    wrong = cron_fault(expression)
    if wrong:
        code, message = wrong
        raise PydanticCustomError(code, "{message}", {"message": message})
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


def short(trigger: str) -> str:
    """Shorten a trigger that is too long; a hash keeps it unique."""
    if len(trigger) <= MAX_NAME:
        return trigger
    digest = hashlib.sha256(trigger.encode()).hexdigest()[:8]
    return f"{trigger[: MAX_NAME - 9]}-{digest}"


_DATES: list[Rule] = [
    {"type": "string", "format": "date"},
    {"type": "string", "pattern": "^(?!0000)[0-9]{4}(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])$"},
]
_DATE_NUMBER: Rule = {"type": "integer", "minimum": 1000_01_01, "maximum": 9999_12_31}

Day = Annotated[date, BeforeValidator(_day), WithJsonSchema(either(*_DATES, _DATE_NUMBER), mode="validation")]
DayOrTime = Annotated[str, WithJsonSchema(either(*_DATES, {"type": "string", "format": "date-time"}))]


class Schedule(Model):
    schedule_id: Name
    job_name: Name
    status: Literal[0, 1] = Field(default=1, description="1 on, 0 off")
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

    @field_validator("trigger_format", mode="after")
    @classmethod
    def _check_trigger_format(cls, text: str | None, info: ValidationInfo) -> str | None:
        zone = ZoneInfo(info.data.get("timezone", "UTC"))
        for moment in _TRIALS if text else ():
            trigger = moment.astimezone(zone).strftime(text or "")
            if len(trigger) > MAX_NAME or not _TRIGGER.match(trigger):
                message = (
                    f"results in triggers such as {trigger[:80]!r}: they must start with a letter, a digit "
                    "or _, contain only letters, digits, _ and -, and have at most 64 characters; "
                    "try %Y%m%d-%H%M"
                )
                raise PydanticCustomError("bad-trigger-format", "{message}", {"message": message})
        return text

    @model_validator(mode="after")
    def _one_kind_of_time(self) -> Self:
        if sum(each is not None for each in (self.cron, self.every_seconds, self.at)) != 1:
            raise PydanticCustomError("one-kind-of-time", "requires exactly one of cron, everySeconds and at")
        if self.start_date and self.end_date and self.end_date < self.start_date:
            raise PydanticCustomError("end-before-start", "endDate must not be before startDate")
        return self

    @property
    def timetable(self) -> Timetable:
        return Timetable(
            cron=self.cron,
            every_seconds=self.every_seconds,
            at=self.at,
            timezone=self.timezone,
            start_date=self.start_date,
            end_date=self.end_date,
        )

    def trigger(self, moment: datetime) -> str:
        """The trigger of the job for a time: by the format in the schedule's zone, else from the UTC time."""
        if self.trigger_format:
            return self.timetable.local(moment).strftime(self.trigger_format)
        return short(f"{moment.strftime(DEFAULT_TRIGGER)}-{self.schedule_id}")


class Firing(Answer):
    """A time of a schedule and its outcome."""

    time: Time
    until: Time | None = Field(
        default=None, description="the last of several consecutive times with this outcome"
    )
    outcome: Literal["started", "exists", "skipped", "missed", "late", "refused"]
    trigger: str | None = None
    job_id: str | None = None
    reason: str | None = Field(default=None, description="why no job was started")
    fired_time: Time


class SavedSchedule(Schedule, Answer):
    """A saved Schedule with its version, times and history."""

    version: int
    next_time: Time | None = Field(default=None, description="the next time it fires, if it is on")
    create_time: Time
    update_time: Time
    update_user: str
    history: list[Firing] = Field(default_factory=list, description="the last firings, newest first")


class When(Answer):
    """A time of a schedule."""

    utc: Time
    local: str


class FireRequest(Request):
    data_time: Time | None = None
    params: Params = Field(default_factory=dict)


class BackfillRequest(Request):
    """The past times to run: a range (`to` not included), or a list of times or dates.

    In a range, a date means its first moment in the schedule's zone; in the list, the whole day.
    """

    model_config = ConfigDict(
        json_schema_extra=either(
            both(present("from", "to"), where(times=EMPTY)),
            both(absent("from", "to"), {"required": ["times"], **where(times=NOT_EMPTY)}),
        )
    )

    from_: DayOrTime | None = Field(default=None, alias="from")
    to: DayOrTime | None = None
    times: list[DayOrTime] = Field(default_factory=list, max_length=MAX_TIMES)
    parallel: int = Field(default=1, ge=1, le=MAX_PARALLEL)
    order: Literal["asc", "desc"] = "asc"
    force: bool = Field(default=False, description="include times whose job has already succeeded")

    @model_validator(mode="after")
    def _range_or_list(self) -> Self:
        if bool(self.times) == (self.from_ is not None or self.to is not None):
            raise PydanticCustomError("range-or-times", "requires either from and to, or times")
        if not self.times and (self.from_ is None or self.to is None):
            raise PydanticCustomError("open-range", "requires both from and to")
        return self


class Backfill(Answer):
    """A backfill: one job for each of the past times."""

    number: int
    job_name: str
    schedule_id: str
    state: Literal["RUNNING", "STOPPED", "DONE"]
    total: int
    waiting: int
    running: int
    success: int
    failed: int
    skipped: int
    parallel: int
    force: bool
    create_time: Time
    update_time: Time
    submit_user: str
    notes: str = ""


# Ignored, so that an answer can be edited and sent back.
ADDED = {"version", "nextTime", "createTime", "updateTime", "updateUser", "history"}


def check_schedule(document: object, job_name: str, schedule_id: str) -> tuple[Schedule | None, list[Fault]]:
    """Parse and validate a schedule; returns it, or None and all faults."""
    if not isinstance(document, dict):
        return None, [fault((), "bad-type", "a schedule must be an object")]
    faults = plain_faults(document)
    document = whole_numbers(document)
    document = {name: value for name, value in document.items() if name not in ADDED and value is not None}
    named = {"jobName": job_name, "scheduleId": schedule_id}
    for name, value in named.items():
        if document.get(name, value) != value:
            faults.append(
                fault(
                    (name,),
                    "bad-name",
                    f"differs from the URL, which has {value!r}; omit it or use the same value",
                )
            )
    if faults:
        return None, in_order(faults)
    try:
        return Schedule.model_validate({**document, **named}, strict=True, by_alias=True, by_name=False), []
    except ValidationError as error:
        return None, in_order(faults_of(error, Schedule, {}, {}))
