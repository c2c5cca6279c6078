"""A Schedule: when Jobs of a definition are to be started; its firings, and backfills of its past."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from shardmill.model.base import MAX_NAME, TRIGGER_PATTERN, Answer, Limit, Model, Name, Params, Seconds, Time
from shardmill.model.fault import Fault, fault, faults_of, in_order
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
    """A trigger that is too long, cut, but still unlike any other."""
    if len(trigger) <= MAX_NAME:
        return trigger
    digest = hashlib.sha256(trigger.encode()).hexdigest()[:8]
    return f"{trigger[: MAX_NAME - 9]}-{digest}"


Day = Annotated[date, BeforeValidator(_day)]


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
    def _gives_triggers(cls, text: str | None, info: ValidationInfo) -> str | None:
        zone = ZoneInfo(info.data.get("timezone", "UTC"))
        for moment in _TRIALS if text else ():
            trigger = moment.astimezone(zone).strftime(text or "")
            if len(trigger) > MAX_NAME or not _TRIGGER.match(trigger):
                message = (
                    f"gives triggers such as {trigger[:80]!r}: they must start with a letter, a digit or _, "
                    "go on with letters, digits, _ or -, and have 64 characters at most; try %Y%m%d-%H%M"
                )
                raise PydanticCustomError("bad-trigger-format", "{message}", {"message": message})
        return text

    @model_validator(mode="after")
    def _one_kind_of_time(self) -> Self:
        if sum(each is not None for each in (self.cron, self.every_seconds, self.at)) != 1:
            raise PydanticCustomError("one-kind-of-time", "needs exactly one of cron, everySeconds and at")
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
        """The trigger of the Job of a time: by the format, in the schedule's zone, else the UTC instant."""
        if self.trigger_format:
            return self.timetable.local(moment).strftime(self.trigger_format)
        return short(f"{moment.strftime(DEFAULT_TRIGGER)}-{self.schedule_id}")


class Firing(Answer):
    """One time of a schedule and what became of it."""

    time: Time
    until: Time | None = Field(default=None, description="the last of several times that fared alike")
    outcome: Literal["started", "exists", "skipped", "missed", "late", "refused"]
    trigger: str | None = None
    job_id: str | None = None
    reason: str | None = Field(default=None, description="why no Job was started")
    fired_time: Time


class SavedSchedule(Schedule, Answer):
    """A saved Schedule: what was sent, and what Shardmill knows of it."""

    version: int
    next_time: Time | None = Field(default=None, description="the time that fires next, if it is on")
    create_time: Time
    update_time: Time
    update_user: str
    history: list[Firing] = Field(default_factory=list, description="the last firings, newest first")


class When(Answer):
    """A time of a schedule."""

    utc: Time
    local: str


class FireRequest(Model):
    data_time: Time | None = None
    params: Params = Field(default_factory=dict)


class BackfillRequest(Model):
    """Which past times are to be run: a range (`to` not included), or a list of times or dates.

    A date alone means its first moment in the schedule's zone; in the list, all of that day.
    """

    from_: str | None = Field(default=None, alias="from")
    to: str | None = None
    times: list[str] = Field(default_factory=list, max_length=MAX_TIMES)
    parallel: int = Field(default=1, ge=1, le=MAX_PARALLEL)
    order: Literal["asc", "desc"] = "asc"
    force: bool = Field(default=False, description="also those that succeeded already")

    @model_validator(mode="after")
    def _range_or_list(self) -> Self:
        if bool(self.times) == (self.from_ is not None or self.to is not None):
            raise PydanticCustomError("range-or-times", "needs either from and to, or times")
        if not self.times and (self.from_ is None or self.to is None):
            raise PydanticCustomError("open-range", "needs both from and to: a backfill must end")
        return self


class Backfill(Answer):
    """A range of past times, one Job each."""

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


# An answer can be edited and sent back: what Shardmill itself added to it is left aside.
_ADDED = {"version", "nextTime", "createTime", "updateTime", "updateUser", "history"}


def check_schedule(document: object, job_name: str, schedule_id: str) -> tuple[Schedule | None, list[Fault]]:
    """The schedule that a document describes, or everything that is wrong with it."""
    if not isinstance(document, dict):
        return None, [fault((), "bad-type", "a schedule must be an object")]
    faults = plain_faults(document)
    document = {name: value for name, value in document.items() if name not in _ADDED and value is not None}
    named = {"jobName": job_name, "scheduleId": schedule_id}
    for name, value in named.items():
        if document.get(name, value) != value:
            faults.append(
                fault((name,), "bad-name", f"is {value!r} in the path; leave it out or say the same")
            )
    if faults:
        return None, in_order(faults)
    try:
        return Schedule.model_validate({**document, **named}, strict=True, by_alias=True, by_name=False), []
    except ValidationError as error:
        return None, in_order(faults_of(error, Schedule, {}, {}))
