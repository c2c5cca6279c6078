"""The base of all models: camelCase field names, and types for names, numbers and times."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

NAME_PATTERN = r"^[_a-zA-Z][_a-zA-Z0-9-]*$"
TRIGGER_PATTERN = r"^[_a-zA-Z0-9][_a-zA-Z0-9-]*$"
MAX_NAME = 64

_NAME = re.compile(NAME_PATTERN[:-1] + r"\Z")
_TRIGGER = re.compile(TRIGGER_PATTERN[:-1] + r"\Z")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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


class Answer(Model):
    """A document that Shardmill returns; unknown fields are ignored, so that older clients can read it."""

    model_config = ConfigDict(extra="ignore")


def spelled(name: str) -> str:
    """The name of a field in documents."""
    return to_camel(name)


def _name(text: str) -> str:
    if len(text) > MAX_NAME or not _NAME.match(text):
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


def _time(value: Any) -> Any:
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


def _rfc3339(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def from_ms(milliseconds: int) -> datetime:
    """Convert milliseconds since 1970 to a time."""
    return _EPOCH + timedelta(milliseconds=milliseconds)


def optional_from_ms(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else from_ms(milliseconds)


def to_ms(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(milliseconds=1)


Name = Annotated[
    str, AfterValidator(_name), Field(json_schema_extra={"pattern": NAME_PATTERN, "maxLength": MAX_NAME})
]
Trigger = Annotated[
    str,
    AfterValidator(_trigger),
    Field(json_schema_extra={"pattern": TRIGGER_PATTERN, "maxLength": MAX_NAME}),
]
Variable = Annotated[str, AfterValidator(_variable)]
Params = dict[Variable, Any]
User = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]

# Numbers that every JSON parser and DynamoDB represent exactly.
Whole = Annotated[int, Field(ge=-(2**53) + 1, le=2**53 - 1)]
Count = Annotated[int, Field(ge=0, le=2**53 - 1)]
Seconds = Annotated[int, Field(ge=0, le=10 * 366 * 86_400)]
Limit = Annotated[int, Field(ge=1, le=10 * 366 * 86_400)]
Retries = Annotated[int, Field(ge=0, le=1_000)]

Time = Annotated[
    datetime,
    BeforeValidator(_time),
    PlainSerializer(_rfc3339, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
