"""The base of all models: camelCase field names, and types for names, numbers and times."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

NAME_PATTERN = r"^[_a-zA-Z][_a-zA-Z0-9-]*$"
TRIGGER_PATTERN = r"^[_a-zA-Z0-9][_a-zA-Z0-9-]*$"
VARIABLE_PATTERN = r"^[^=\x00]+$"
MAX_NAME = 64

_NAME = re.compile(NAME_PATTERN[:-1] + r"\Z")
_TRIGGER = re.compile(TRIGGER_PATTERN[:-1] + r"\Z")
_OWN_VALUES = frozenset(("params", "content", "items", "userattr", "output", "attributes"))
_MAX_LEVELS = 32  # no model has numbers deeper than this, and a body could exhaust the stack


def whole_numbers(document: dict[str, Any]) -> dict[str, Any]:
    """Convert 1.0 to 1, because JSON Schema calls both an integer. Users' own values are unchanged."""
    converted: dict[str, Any] = _whole_numbers(document, _MAX_LEVELS)
    return converted


def _whole_numbers(value: Any, levels: int) -> Any:
    if isinstance(value, dict) and levels:
        return {
            name: each if name in _OWN_VALUES else _whole_numbers(each, levels - 1)
            for name, each in value.items()
        }
    if isinstance(value, list) and levels:
        return [_whole_numbers(each, levels - 1) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


class Model(BaseModel):
    """A document that a caller sends; unknown fields are rejected."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        serialize_by_alias=True,
        extra="forbid",
        hide_input_in_errors=True,
        defer_build=True,  # a cold start builds only the models that it uses
    )


class Request(Model):
    """A body of a request; values are not converted: `false` is not a number, `"1"` is not an integer."""

    model_config = ConfigDict(strict=True)

    @model_validator(mode="before")
    @classmethod
    def _accept_whole_floats(cls, data: Any) -> Any:
        return whole_numbers(data) if isinstance(data, dict) else data


class Reason(Request):
    """The reason for an action."""

    reason: str = Field(default="", max_length=500, description="recorded in the notes and the history")


class Answer(Model):
    """A document that Shardmill returns; unknown fields are ignored, so that older clients can read it."""

    model_config = ConfigDict(extra="ignore")


def spelled(name: str) -> str:
    """The name of a field in documents."""
    return to_camel(name)


def is_name(text: str) -> bool:
    """Whether a definition, step, schedule or group can have this name."""
    return len(text) <= MAX_NAME and _NAME.match(text) is not None


def _name(text: str) -> str:
    if not is_name(text):
        raise PydanticCustomError(
            "bad-name",
            "must start with a letter or _, contain only letters, digits, _ and -, "
            "and have at most 64 characters",
        )
    return text


def _trigger(text: str) -> str:
    if len(text) > MAX_NAME or not _TRIGGER.match(text):
        raise PydanticCustomError(
            "bad-trigger",
            "must start with a letter, a digit or _, contain only letters, digits, _ and -, "
            "and have at most 64 characters",
        )
    return text


def _variable(text: str) -> str:
    if not text or "=" in text or "\0" in text:
        raise PydanticCustomError(
            "bad-name", "becomes the name of an environment variable: must not be empty or contain = or NUL"
        )
    return text


def parse_time(value: Any) -> Any:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise PydanticCustomError(
                "bad-time", "must be an RFC 3339 time such as 2020-01-23T04:14:44.900Z"
            ) from None
    if not isinstance(value, datetime):
        return value
    try:
        moment = value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    except OverflowError:
        raise PydanticCustomError("bad-time", "is outside the years 1 to 9999") from None
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def show_time(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


Name = Annotated[
    str, AfterValidator(_name), Field(json_schema_extra={"pattern": NAME_PATTERN, "maxLength": MAX_NAME})
]
Trigger = Annotated[
    str,
    AfterValidator(_trigger),
    Field(json_schema_extra={"pattern": TRIGGER_PATTERN, "maxLength": MAX_NAME}),
]
Variable = Annotated[str, AfterValidator(_variable)]
_VARIABLES = Field(json_schema_extra={"propertyNames": {"pattern": VARIABLE_PATTERN}})
Params = Annotated[dict[Variable, Any], _VARIABLES]
Variables = Annotated[dict[Variable, str], _VARIABLES]
User = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]

# Numbers that every JSON parser and DynamoDB represent exactly.
Whole = Annotated[int, Field(ge=-(2**53) + 1, le=2**53 - 1)]
Count = Annotated[int, Field(ge=0, le=2**53 - 1)]
Seconds = Annotated[int, Field(ge=0, le=10 * 366 * 86_400)]
Limit = Annotated[int, Field(ge=1, le=10 * 366 * 86_400)]
Retries = Annotated[int, Field(ge=0, le=1_000)]

Time = Annotated[
    datetime,
    BeforeValidator(parse_time),
    PlainSerializer(show_time, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
