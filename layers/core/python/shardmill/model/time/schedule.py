"""Schedules of a definition and their firings."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    AfterValidator,
    Field,
    PlainSerializer,
    PlainValidator,
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
    Whole,
    parse_time,
    show_time,
    whole_numbers,
)
from shardmill.model.fault import Fault, fault, faults_of, in_order
from shardmill.model.json_schema import Rule, either
from shardmill.model.plain_json import plain_faults
from shardmill.model.time.schedule_expression import expression_fault
from shardmill.model.time.timetable import Timetable, end_instant, first_instant

DEFAULT_TRIGGER = "%Y%m%dT%H%M%SZ"
MAX_LISTED = 1_000

_TRIGGER = re.compile(TRIGGER_PATTERN[:-1] + r"\Z")
_LONGEST_DATE = 10
_TRIALS = [datetime(2026, 1, 1, 5, 4, 3, tzinfo=UTC), datetime(2026, 12, 31, 22, 59, 58, tzinfo=UTC)]


def _cron(expression: str) -> str:
    wrong = expression_fault(expression)
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


def _day_or_time(value: Any) -> Any:
    if value == 0 and type(value) is int:  # no date, in tables without nulls
        return None
    text = str(value) if type(value) is int else value
    if isinstance(text, date):  # also a time
        return text
    try:
        return parse_time(text) if len(text) > _LONGEST_DATE else date.fromisoformat(text)
    except (PydanticCustomError, TypeError, ValueError):
        raise PydanticCustomError(
            "bad-date", "must be a date such as 2020-01-21 or 20200121, or an RFC 3339 time"
        ) from None


def _shown(value: date) -> str:
    return show_time(value) if isinstance(value, datetime) else value.isoformat()


def short(trigger: str) -> str:
    """Shorten a trigger that is too long; a hash keeps it unique."""
    if len(trigger) <= MAX_NAME:
        return trigger
    digest = hashlib.sha256(trigger.encode()).hexdigest()[:8]
    return f"{trigger[: MAX_NAME - 9]}-{digest}"


DATES: list[Rule] = [
    {"type": "string", "format": "date"},
    {"type": "string", "pattern": "^(?!0000)[0-9]{4}(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])$"},
]
_DATE_NUMBER: Rule = {"type": "integer", "minimum": 1000_01_01, "maximum": 9999_12_31}
_NO_DATE: Rule = {"type": "integer", "const": 0}

_INSTANT: Rule = {"type": "string", "format": "date-time"}
DayOrInstant = Annotated[
    date,
    PlainValidator(_day_or_time),
    PlainSerializer(_shown, return_type=str, when_used="json"),
    WithJsonSchema(either(*DATES, _DATE_NUMBER, _NO_DATE, _INSTANT), mode="validation"),
    WithJsonSchema(either(DATES[0], _INSTANT), mode="serialization"),
]


class Schedule(Model):
    schedule_id: Name
    job_name: Name
    status: Literal[0, 1] = Field(default=1, description="1 on, 0 off")
    cron: Annotated[str, AfterValidator(_cron)] | None = None
    every_seconds: Limit | None = None
    every_months: Annotated[int, Field(ge=1, le=1_200)] | None = Field(
        default=None, description="an interval in months, counted from startDate"
    )
    delay_seconds: Limit | None = Field(
        default=None, description="seconds from the end of the previous job to the next one"
    )
    at: Time | None = None
    times: list[Time] = Field(default_factory=list, max_length=MAX_LISTED, description="a list of times")
    timezone: Annotated[str, AfterValidator(_timezone)] = "UTC"
    start_date: DayOrInstant | None = Field(default=None, description="the first day, or the first instant")
    end_date: DayOrInstant | None = Field(default=None, description="the last day, or the last instant")
    max_times: Annotated[int, Field(ge=1, le=MAX_LISTED)] | None = Field(
        default=None, description="fire only this many times, counted from startDate"
    )
    overlap: Literal["allow", "skip", "queue", "replace"] = "allow"
    catch_up: Literal["none", "latest", "all"] = "latest"
    max_lateness_seconds: Seconds | None = None
    params: Params = Field(
        default_factory=dict, description="may contain {{ job.dataTime }}, {{ job.trigger }}, {{ job.name }}"
    )
    steps: list[dict[str, Any]] = Field(
        default_factory=list, description="settings of single steps, as in a JobRequest"
    )
    priority: Whole | None = None
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
        intervals = (self.every_seconds, self.every_months, self.delay_seconds)
        kinds = (self.cron, *intervals, self.at, self.times or None)
        if sum(each is not None for each in kinds) != 1:
            raise PydanticCustomError(
                "one-kind-of-time",
                "requires exactly one of cron, everySeconds, everyMonths, delaySeconds, at and times",
            )
        zone = self.zone
        if (
            self.start_date
            and self.end_date
            and first_instant(self.start_date, zone) >= end_instant(self.end_date, zone)
        ):
            raise PydanticCustomError("end-before-start", "endDate must not be before startDate")
        return self

    @model_validator(mode="after")
    def _anchored(self) -> Self:
        if self.start_date is None and self.every_months is not None:
            raise PydanticCustomError("no-start", "everyMonths counts from startDate: set it")
        if self.max_times is not None and (self.at is not None or self.times):
            raise PydanticCustomError("bad-value", "maxTimes cannot be combined with at or times")
        if self.max_times is not None and self.start_date is None and self.delay_seconds is None:
            raise PydanticCustomError("no-start", "maxTimes counts from startDate: set it")
        return self

    @model_validator(mode="after")
    def _one_after_the_other(self) -> Self:
        rules = (self.overlap, self.catch_up, self.max_lateness_seconds)
        if self.delay_seconds is not None and rules != ("allow", "latest", None):
            raise PydanticCustomError(
                "bad-value",
                "delaySeconds cannot be combined with overlap, catchUp or maxLatenessSeconds: "
                "its jobs run one after the other",
            )
        return self

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.timezone)

    @property
    def timetable(self) -> Timetable:
        return Timetable(
            cron=self.cron,
            every_seconds=self.every_seconds,
            at=self.at,
            timezone=self.timezone,
            start_date=self.start_date,
            end_date=self.end_date,
            every_months=self.every_months,
            at_times=tuple(self.times),
            max_times=self.max_times,
            after_jobs=self.delay_seconds is not None,
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
    awaited_job: str | None = Field(
        default=None, description="the id of the Job after whose end the next time comes (`delaySeconds`)"
    )
    create_time: Time
    update_time: Time
    update_user: str
    history: list[Firing] = Field(default_factory=list, description="the last firings, newest first")
    meaning: str = Field(default="", description="the times of the schedule in words")


class When(Answer):
    """A time of a schedule."""

    utc: Time
    local: str


class UpcomingTimes(Answer):
    """The next times of a schedule, and what its expression means."""

    items: list[When]
    cursor: str | None = None
    meaning: str = Field(default="", description="the times of the schedule in words")


class FireRequest(Request):
    data_time: Time | None = None
    params: Params = Field(default_factory=dict)


# Ignored, so that an answer can be edited and sent back.
ADDED = {"version", "nextTime", "awaitedJob", "createTime", "updateTime", "updateUser", "history", "meaning"}


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
