"""Backfills: the past times of a schedule to run, and their progress."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from shardmill.model.base import Answer, Request, Time
from shardmill.model.json_schema import EMPTY, NOT_EMPTY, absent, both, either, present, where
from shardmill.model.time.schedule import DATES

MAX_TIMES = 10_000
MAX_PARALLEL = 100

DayOrTime = Annotated[str, WithJsonSchema(either(*DATES, {"type": "string", "format": "date-time"}))]


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


class BackfillEffect(Answer):
    """The times that a backfill would run, found without starting it."""

    total: int = Field(description="times, one Job each")
    first: Time
    last: Time
    parallel: int
    sentences: list[str] = Field(description="all of this in words")
