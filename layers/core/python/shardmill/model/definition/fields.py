"""JobDefine and StepDefine: a definition in its canonical spelling.

`None` means "not given": a step's own setting takes precedence over its job's, and that over the default.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from shardmill.model.base import Answer, Limit, Model, Name, Params, Retries, Seconds, Time, User, Whole
from shardmill.model.blocks import MAX_SHARDS
from shardmill.model.definition.command import Command
from shardmill.model.definition.field_types import (
    Content,
    Items,
    NumberOfShards,
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
    auth: bool = False
    noretry: bool = False
    userattr: dict[str, str] = Field(default_factory=dict)


class Window(Model):
    """Calendar units around the dataTime; from 0 to 0 is the unit that contains it."""

    model_config = ConfigDict(json_schema_extra={"dependentRequired": {"from": ["to"], "to": ["from"]}})

    unit: Literal["minute", "hour", "day", "week", "month", "year"] = "day"
    from_: int = Field(default=0, alias="from", ge=-10_000, le=10_000)
    to: int = Field(default=0, ge=-10_000, le=10_000)

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
        return self


class Dependency(Model):
    """Makes jobs wait for jobs of another definition; without a window, for that of the same dataTime."""

    job_name: Name
    window: Window | None = None
    strategy: Strategy = "all"


class PackConf(Model):
    """Divides the inclusive range `start` to `end` into packs of `size`; the last may be smaller."""

    size: Annotated[Whole, Field(ge=1)]
    start: Whole
    end: Whole


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
    start_shard_id: Annotated[Whole, Field(ge=0)] = 0
    pack_conf: PackConf | None = None
    dependent_steps: list[Name] = Field(default_factory=list)
    phase: int = Field(default=0, ge=0, le=1_000_000)
    can_fail: bool = False
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


class SavedDefine(JobDefine, Answer):
    """A saved JobDefine with its version, times and users."""

    version: int
    create_time: Time
    update_time: Time
    submit_user: str
    update_user: str
    suspended: str | None = Field(
        default=None, description="who suspended it and why; no new jobs start meanwhile"
    )


class ListedDefine(Answer):
    """A saved JobDefine in a list, without its document."""

    job_name: str
    version: int
    description: str | None = None
    app_name: str | None = None
    step_count: int
    create_time: Time
    update_time: Time
    submit_user: str
    update_user: str
    suspended: str | None = Field(
        default=None, description="who suspended it and why; no new jobs start meanwhile"
    )


class JobNode(Answer):
    job_name: str
    defined: bool = Field(default=True, description="false for a parent that has not been saved yet")
    schedules: list[str] = Field(default_factory=list)


class JobEdge(Answer):
    """`child` waits for `parent`."""

    parent: str
    child: str


class JobGraph(Answer):
    """All definitions, and the dependencies between them."""

    nodes: list[JobNode]
    edges: list[JobEdge]


def total(step: StepDefine) -> int | None:
    """The number of a step's tasks; None if it is known only when the upstream steps have ended."""
    if step.step_type == "PACK":
        pack = _pack_conf(step)
        return pack_count(pack.size, pack.start, pack.end)
    if step.items is not None:
        return len(step.items) if isinstance(step.items, list) else None
    if step.partition or isinstance(step.sharding, str):
        return None
    return step.sharding


def is_sharded(step: StepDefine) -> bool:
    """Whether the output of a step is a list with one element for each task."""
    return step.step_type == "PACK" or total(step) != 1 or step.items is not None


def upstream_of(step: StepDefine) -> list[str]:
    """The steps that a step waits for: those it names, and the origins of its files."""
    origins = [file.origin for file in (*step.inputs, *step.predata) if file.origin]
    return list(dict.fromkeys([*step.dependent_steps, *origins]))


def pack_count(size: int, start: int, end: int) -> int:
    return -((start - end - 1) // size)


def pack_of(step: StepDefine, rank: int) -> tuple[int, int]:
    """The inclusive range of the task `rank` of a PACK step."""
    pack = _pack_conf(step)
    count = pack_count(pack.size, pack.start, pack.end)
    if not 0 <= rank < count:
        raise ValueError(f"step {step.step_name!r} has {count} tasks; there is no rank {rank}")
    first = pack.start + rank * pack.size
    return first, min(first + pack.size - 1, pack.end)


def _pack_conf(step: StepDefine) -> PackConf:
    if step.step_type != "PACK" or step.pack_conf is None:
        raise ValueError(f"step {step.step_name!r} has no packConf")
    return step.pack_conf
