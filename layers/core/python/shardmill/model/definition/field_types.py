"""Types of fields of a definition that take values of several kinds, such as a number or an expression."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainValidator
from pydantic_core import PydanticCustomError

from shardmill.model.base import Whole
from shardmill.model.blocks import MAX_ITEMS, MAX_SHARDS

# Table-driven schedulers identify step types by numbers.
NUMBERED_TYPES = {1: "hive", 2: "shell", 3: "java", 4: "mapreduce"}

_PERCENTAGE = re.compile(r"(\d{1,2}(\.\d{1,4})?|100)%\Z", re.ASCII)
_STRATEGY = re.compile(r"(all|any|last:[1-9]\d{0,3})\Z", re.ASCII)


def type_of(step: Mapping[str, Any]) -> Any:
    """The type of a step document: as given, by its number, or derived from its other fields."""
    given = step.get("type")
    if given is None:
        if step.get("command") is not None:
            return "command"
        return "noop" if step.get("content") is None else "shell"
    return named_type(given)


def named_type(given: Any) -> Any:
    """The name of a type; a value that is not the number of a type is returned unchanged."""
    return NUMBERED_TYPES.get(given, given) if type(given) is int else given


def _content(value: Any) -> Any:
    if value is None or isinstance(value, (str, dict)):
        return value
    raise PydanticCustomError("bad-type", "must be a string or an object")


def _tolerance(value: Any) -> int | str:
    if type(value) is int and 0 <= value <= MAX_SHARDS:
        return value
    if isinstance(value, str) and _PERCENTAGE.match(value):
        return value
    raise PydanticCustomError(
        "bad-value", "must be a number of tasks such as 3, or a percentage such as '5%'"
    )


def _strategy(value: Any) -> str:
    if isinstance(value, str) and _STRATEGY.match(value):
        return value
    raise PydanticCustomError("bad-value", "must be all, any or last:N")


def _sharding(value: Any) -> int | str:
    if isinstance(value, str) or (type(value) is int and 1 <= value <= MAX_SHARDS):
        return value
    raise PydanticCustomError(
        "out-of-range" if type(value) is int else "bad-type",
        "must be a number from 1 to {most}, or a {{ }} expression that yields one",
        {"most": MAX_SHARDS},
    )


def _pack_number(value: Any) -> int | str:
    if isinstance(value, str) or (type(value) is int and abs(value) < 2**53):
        return value
    raise PydanticCustomError(
        "out-of-range" if type(value) is int else "bad-type",
        "must be an integer of at most 53 bits, or a {{ }} expression that yields one",
    )


def _pack_size(value: Any) -> int | str:
    if type(value) is int and value < 1:
        raise PydanticCustomError("out-of-range", "must be at least 1")
    return _pack_number(value)


def _items(value: Any) -> list[Any] | str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and len(value) <= MAX_ITEMS:
        return value
    raise PydanticCustomError(
        "bad-value",
        "must be a list of at most {most} items, or a {{ }} expression that yields one",
        {"most": MAX_ITEMS},
    )


StepType = Literal[
    "noop", "shell", "python", "command", "java", "hive", "mapreduce", "docker", "http", "lambda"
]
Content = Annotated[str | dict[str, Any] | None, BeforeValidator(_content)]
Expression = Annotated[str, Field(pattern=r"^\s*\{\{[\s\S]*\}\}\s*$")]
Percentage = Annotated[str, Field(pattern=r"^([0-9]{1,2}(\.[0-9]{1,4})?|100)%$")]
Tolerance = Annotated[
    int | str,
    PlainValidator(
        _tolerance, json_schema_input_type=Annotated[int, Field(ge=0, le=MAX_SHARDS)] | Percentage
    ),
]
NumberOfShards = Annotated[
    int | str,
    PlainValidator(_sharding, json_schema_input_type=Annotated[int, Field(ge=1, le=MAX_SHARDS)] | Expression),
]
PackNumber = Annotated[int | str, PlainValidator(_pack_number, json_schema_input_type=Whole | Expression)]
PackSize = Annotated[
    int | str,
    PlainValidator(_pack_size, json_schema_input_type=Annotated[Whole, Field(ge=1)] | Expression),
]
Items = Annotated[
    list[Any] | str,
    PlainValidator(
        _items, json_schema_input_type=Annotated[list[Any], Field(max_length=MAX_ITEMS)] | Expression
    ),
]
Strategy = Annotated[
    str,
    PlainValidator(
        _strategy, json_schema_input_type=Annotated[str, Field(pattern="^(all|any|last:[1-9][0-9]{0,3})$")]
    ),
]
