"""Worker groups, as requests and answers describe them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema

from shardmill.model.base import Answer, Model, Name, Request, Time
from shardmill.model.definition.field_types import NUMBERED_TYPES, StepType, named_type
from shardmill.model.json_schema import NULL, either, where

GroupKind = Literal["pull", "lambda"]
BoundType = Annotated[
    StepType,
    BeforeValidator(named_type),
    WithJsonSchema({"enum": [*get_args(StepType), *sorted(NUMBERED_TYPES)]}),
]


class GroupName(Model):
    name: Name


class GroupRequest(Request):
    """The settings of a group; `types` are the step types bound to it.

    Fields that only answers need are accepted, so that an answer can be edited and sent back.
    """

    model_config = ConfigDict(
        json_schema_extra=either(
            where(kind={"enum": ["pull", None]}), where(leaseSeconds=either(NULL, {"minimum": 900}))
        )
    )

    id: str | None = Field(default=None, description="the name in the path, if given")
    name: str | None = Field(default=None, description="the name in the path, if given")
    suspended: Any = Field(default=None, description="ignored")
    create_time: Any = Field(default=None, description="ignored")
    update_time: Any = Field(default=None, description="ignored")
    bindings: Any = Field(default=None, description="ignored")
    kind: GroupKind | None = Field(default=None, description="default pull; cannot be changed")
    lease_seconds: int | None = Field(
        default=None, ge=10, le=43_200, description="default 60, for kind lambda 900"
    )
    types: list[BoundType] | None = Field(
        default=None, description="1 hive, 2 shell, 3 java and 4 mapreduce are also accepted"
    )


class TypeBinding(Answer):
    """A step type that is bound to a group."""

    type: StepType
    create_time: Time = Field(description="when the type was bound")
    update_time: Time = Field(description="when the binding was last saved")


class WorkerGroup(Answer):
    id: str
    name: str
    kind: GroupKind
    lease_seconds: int
    types: list[StepType] = Field(default_factory=list)
    bindings: list[TypeBinding] = Field(default_factory=list, description="when each of its types was bound")
    suspended: str | None = Field(
        default=None, description="who suspended it and why; its tasks are not leased meanwhile"
    )
    create_time: Time
    update_time: Time
