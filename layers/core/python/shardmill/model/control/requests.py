"""Bodies of the requests that control Jobs."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from shardmill.model.base import Limit, Name, Params, Reason, Retries, Whole
from shardmill.model.blocks import MAX_SHARDS
from shardmill.model.definition.fields import MAX_STEPS
from shardmill.model.json_schema import EMPTY, NULL, both, either, only_with, present, where


def _check_index(request: Any) -> Any:
    if request.index is not None and request.step_name is None:
        raise PydanticCustomError("missing-field", "an index needs a stepName")
    return request


class Suspension(Reason):
    let_finish: bool = Field(default=False, description="let running tasks finish")


class Killing(Reason):
    """The target of a kill: the Job, a step of it, or one task of a step."""

    model_config = ConfigDict(json_schema_extra=only_with("index", "stepName"))

    step_name: str | None = None
    index: int | None = Field(default=None, ge=0, description="index of the task, counted from startShardId")

    _index_needs_step = model_validator(mode="after")(_check_index)


class Rerun(Reason):
    """The parts to rerun: failed tasks, everything (`scope` is all), steps, or tasks of one step."""

    model_config = ConfigDict(
        json_schema_extra=both(
            either(where(scope=NULL), where(steps=EMPTY)),
            either(
                where(shards=EMPTY),
                {"required": ["steps"], **where(steps={"minItems": 1, "maxItems": 1})},
            ),
        )
    )

    scope: Literal["failed", "all"] | None = None
    steps: list[str] = Field(default_factory=list, max_length=MAX_STEPS)
    shards: list[int] = Field(
        default_factory=list, max_length=10_000, description="indexes of tasks of the one step in `steps`"
    )

    dependents: bool = Field(
        default=False,
        description="also rerun the dependent jobs of the same dataTime, each after its parents",
    )

    params: Params = Field(
        default_factory=dict,
        description="new values of parameters, for this run and later ones; needs the scope submit, too",
    )

    @model_validator(mode="after")
    def _one_scope(self) -> Self:
        if self.scope and self.steps:
            raise PydanticCustomError("both-spellings", "has both steps and a scope; give one of them")
        if self.shards and len(self.steps) != 1:
            raise PydanticCustomError("missing-field", "shards need exactly one step")
        return self


class Recompute(Reason):
    step_name: str


class Force(Reason):
    """The final state to force, of a Job, a step of it, or one task of a step."""

    model_config = ConfigDict(json_schema_extra=only_with("index", "stepName"))

    state: Literal["SUCCESS", "FAILED"]
    step_name: str | None = None
    index: int | None = Field(default=None, ge=0, description="index of the task, counted from startShardId")

    _index_needs_step = model_validator(mode="after")(_check_index)


class Priority(Reason):
    priority: Whole


class Groups(Reason):
    """The new worker groups of all steps, or of one."""

    worker_groups: list[Name] = Field(min_length=1, max_length=100)
    step_name: Name | None = None


_CHANGEABLE = ("priority", "workerGroups", "maxTaskCount", "failedRetries", "timeoutSeconds")


class Change(Reason):
    """The new values for all steps or for one; they apply to tasks that are not leased yet."""

    model_config = ConfigDict(json_schema_extra=either(*map(present, _CHANGEABLE)))

    step_name: Name | None = None
    priority: Whole | None = None
    worker_groups: list[Name] | None = Field(default=None, min_length=1, max_length=100)
    max_task_count: int | None = Field(default=None, ge=1, le=MAX_SHARDS)
    failed_retries: Retries | None = None
    timeout_seconds: Limit | None = None

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if not self.values:
            raise PydanticCustomError("missing-field", "has nothing to change")
        return self

    @property
    def values(self) -> dict[str, Any]:
        return self.model_dump(exclude={"step_name", "reason"}, exclude_none=True, by_alias=False)
