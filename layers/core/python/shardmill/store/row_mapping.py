"""How rows become items of the table and items become rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import MISSING, Field, dataclass, field, fields
from enum import Enum
from functools import cache
from typing import Any, Self, cast, get_type_hints

from shardmill.store.codec import to_json

_JSON = "json"
_NUMBER_BYTES = 21


def json_field(empty: Callable[[], Any] = dict) -> Any:
    """A field that is stored as JSON text, because no expression needs to look inside."""
    return field(default_factory=empty, metadata={_JSON: True})


@dataclass(frozen=True, slots=True)
class _Plan:
    """How the fields of a row and the attributes of an item correspond."""

    names: Mapping[str, bool]
    """Each field, and whether it is stored as JSON."""
    decoders: Mapping[str, Callable[[Any], Any] | None]
    required: AbstractSet[str]
    defaults: Mapping[str, Any]
    factories: Sequence[tuple[str, Callable[[], Any]]]


@cache
def _plan(row: Any) -> _Plan:
    every, hints = fields(row), get_type_hints(row)
    return _Plan(
        names={each.name: _JSON in each.metadata for each in every},
        decoders={each.name: _decoder(each, hints[each.name]) for each in every},
        required={each.name for each in every if each.default is MISSING and each.default_factory is MISSING},
        defaults={each.name: each.default for each in every if each.default is not MISSING},
        factories=[
            (each.name, each.default_factory) for each in every if each.default_factory is not MISSING
        ],
    )


def _decoder(each: Field[Any], hint: Any) -> Callable[[Any], Any] | None:
    """Converts the value of an attribute to that of a field; text, numbers and sets are used as they are."""
    if _JSON in each.metadata:
        return json.loads
    return hint if isinstance(hint, type) and issubclass(hint, Enum) else None


def _bytes(value: Any) -> int:
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, Mapping):
        return sum(len(name) + _bytes(each) + 1 for name, each in value.items())
    return sum(_bytes(each) + 1 for each in value) if isinstance(value, Iterable) else _NUMBER_BYTES


class Row:
    """An immutable dataclass that is stored as one item, with one attribute for each field."""

    @classmethod
    def from_item(cls, item: Mapping[str, Any]) -> Self:
        plan = _plan(cast(Hashable, cls))
        row = object.__new__(cls)
        values = row.__dict__  # the `__init__` of a frozen dataclass takes several times as long
        values.update(plan.defaults)
        for name, factory in plan.factories:
            if name not in item:
                values[name] = factory()
        decoders = plan.decoders
        for name, value in item.items():
            if name in decoders:
                decode = decoders[name]
                values[name] = decode(value) if decode else value
        missing = plan.required - values.keys()
        if missing:
            raise TypeError(f"the item lacks attributes that {cls.__name__} requires: {sorted(missing)}")
        return row

    def to_item(self) -> dict[str, Any]:
        item: dict[str, Any] = {}
        for name, is_json in _plan(cast(Hashable, type(self))).names.items():
            value = getattr(self, name)
            if is_json:
                item[name] = to_json(value)
            elif value is not None and value != set() and value != "":
                item[name] = str(value) if isinstance(value, str) else value
        return item

    @property
    def stored_bytes(self) -> int:
        """About how many bytes the item has; DynamoDB allows 400 KB."""
        return sum(len(name) + _bytes(value) for name, value in self.to_item().items())

    def evolve(self, **changes: Any) -> Self:
        """A copy with other values for some fields."""
        names = _plan(cast(Hashable, type(self))).names
        unknown = changes.keys() - names.keys()
        if unknown:
            raise TypeError(f"{type(self).__name__} has no field {', '.join(sorted(unknown))}")
        row = object.__new__(type(self))
        old = self.__dict__
        row.__dict__.update({name: changes[name] if name in changes else old[name] for name in names})
        return row
