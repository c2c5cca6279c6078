"""JobDefine and StepDefine: a definition in its canonical spelling.

`None` means "not given": a step's own setting takes precedence over its job's, and that over the default.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from shardmill.model.base import Limit, Model, Name, Params, Retries, Seconds, User, Whole
from shardmill.model.blocks import MAX_SHARDS
from shardmill.model.definition.command import Command
from shardmill.model.definition.field_types import (
    Content,
    Items,
    NumberOfShards,
    PackNumber,
    PackSize,
    StepType,
    Strategy,
    Tolerance,
    type_of,
)
from shardmill.model.files import File, Partition
from shardmill.model.notify import MAX_NOTICES, Notice
from shardmill.model.time.deadline import TimeOfDay

MAX_STEPS = 2_000
MAX_GROUPS = 100
MAX_DEPENDENCIES = 40  # all of them are written in one transaction


class Info(Model):
    """Descriptive fields of a job; the engine reads only `noretry` and `auth`."""

    name: str | None = None
    project: str | None = None
    user: str | None = None
    pipeline: str | None = None
    clientgroups: str | None = Field(default=None, description="the groups that an AWE document names")
    auth: bool = False
    noretry: bool = False
    userattr: dict[str, str] = Field(default_factory=dict)


class Window(Model):
    """Calendar units around the dataTime; from 0 to 0 is the unit that contains it."""

    model_config = ConfigDict(json_schema_extra={"dependentRequired": {"from": ["to"], "to": ["from"]}})

    unit: Literal["minute", "hour", "day", "week", "month", "year"] = "day"
    from_: int = Field(default=0, alias="from", ge=-10_000, le=10_000)
    to: int = Field(default=0, ge=-10_000, le=10_000)
    week_start: Literal["monday", "sunday"] | None = Field(
        default=None, description="the first day of the week, for the unit week; monday unless given"
    )

    @model_validator(mode="before")
    @classmethod
    def _closed(cls, data: Any) -> Any:
        if isinstance(data, dict) and ("from" in data) != ("to" in data):
            raise PydanticCustomError("open-window", "requires both from and to")
        return data

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.from_ > self.to:
            raise PydanticCustomError("bad-value", "from must not be after to")
        if self.week_start and self.unit != "week":
            raise PydanticCustomError("bad-value", "weekStart requires unit: week")
        return self


class Dependency(Model):
    """Makes jobs wait for jobs of another definition; without a window, for the job of the same dataTime."""

    job_name: Name
    window: Window | None = None
    strategy: Strategy = "all"


class PackConf(Model):
    """Divides the inclusive range `start` to `end` into packs of `size`; the last may be smaller."""

    size: PackSize
    start: PackNumber
    end: PackNumber


class StepDefine(Model):
    step_name: Name
    description: str | None = None
    type: StepType = "noop"
    content: Content = None
    command: Command | None = None
    step_type: Literal["SHARD", "PACK"] = "SHARD"
    sharding: NumberOfShards = 1
    items: Items | None = Field(default=None, description="one task for each item, available as {{ item }}")
    when: str | None = Field(
        default=None, description="the step runs only if this {{ }} expression is true; else it is SKIPPED"
    )
    run_if_skipped: bool = Field(
        default=False, description="run even if an upstream step was skipped by its `when`"
    )
    start_shard_id: Annotated[Whole, Field(ge=0)] = Field(
        default=0, description="tasks with a lower index are omitted; they count in shard.total"
    )
    pack_conf: PackConf | None = None
    dependent_steps: list[Name] = Field(default_factory=list)
    done_steps: list[Name] = Field(
        default_factory=list, description="steps that must have ended, whatever their outcome"
    )
    phase: int = Field(default=0, ge=0, le=1_000_000)
    can_fail: bool = False
    ignorable: bool | None = Field(
        default=None, description="false: a request that sets `ignore` for this step is rejected"
    )
    fail_fast: bool = False
    tolerated_failures: Tolerance = 0
    max_task_count: int | None = Field(default=None, ge=1, le=MAX_SHARDS)
    worker_groups: list[Name] = Field(default_factory=list, max_length=MAX_GROUPS)
    priority: Whole | None = None
    params: Params = Field(default_factory=dict)
    failed_retries: Retries | None = None
    failed_interval: Seconds | None = None
    failed_backoff: float | None = Field(default=None, ge=1, le=100)
    reject_retries: Retries | None = None
    reject_interval: Seconds | None = None
    lost_retries: Retries | None = None
    timeout_seconds: Limit | None = None
    execute_user: User | None = None
    inputs: list[File] = Field(default_factory=list)
    outputs: list[File] = Field(default_factory=list)
    predata: list[File] = Field(default_factory=list)
    partition: Partition | None = None
    userattr: dict[str, str] = Field(
        default_factory=dict, description="attributes of the step for AWE clients, in addition to `info`"
    )
    taskid: str | None = Field(
        default=None,
        max_length=1_000,
        description="the id of the AWE task that the step was made of, if its name is another",
    )
    partinfo: dict[str, str | int] | None = Field(
        default=None, description="`partinfo` of an AWE task that is not split, as it was submitted"
    )

    @model_validator(mode="before")
    @classmethod
    def _settle_type(cls, data: Any) -> Any:
        return {**data, "type": type_of(data)} if isinstance(data, dict) else data


class JobDefine(Model):
    job_name: Name
    description: str | None = None
    params: Params = Field(default_factory=dict)
    worker_groups: list[Name] = Field(default_factory=list, max_length=MAX_GROUPS)
    priority: Whole = 1
    app_name: str | None = Field(default=None, min_length=1, max_length=64)
    failed_retries: Retries = 0
    failed_interval: Seconds = 3
    failed_backoff: float = Field(default=1.0, ge=1, le=100)
    reject_retries: Retries = 10
    reject_interval: Seconds = 3
    lost_retries: Retries = 5
    timeout_seconds: Limit | None = None
    on_failure: Literal["fail", "suspend"] = "fail"
    concurrency: int | None = Field(default=None, ge=1, le=5_000)
    unique_alive_instance: bool = Field(
        default=False, description="a request is rejected while another job of this definition has not ended"
    )
    dependencies: list[Dependency] = Field(default_factory=list, max_length=MAX_DEPENDENCIES)
    expired_seconds: Limit = 86_400
    retention_days: int | None = Field(default=None, ge=1, le=36_600)
    deadline_seconds: Limit | None = None
    deadline_time: TimeOfDay | None = None
    on_deadline: Literal["mark", "kill"] = "mark"
    notify: list[Notice] = Field(default_factory=list, max_length=MAX_NOTICES)
    execute_user: User | None = None
    info: Info = Field(default_factory=Info)
    steps: list[StepDefine] = Field(min_length=1, max_length=MAX_STEPS)


def upstream_of(step: StepDefine) -> list[str]:
    """The steps that a step waits for: named steps, and the origins of its files."""
    return list(dict.fromkeys([*needed_by(step), *step.done_steps]))


def needed_by(step: StepDefine) -> list[str]:
    """The steps that must succeed before a step: named steps, and the origins of its files."""
    origins = [file.origin for file in (*step.inputs, *step.predata) if file.origin]
    return [*step.dependent_steps, *origins]
