"""How rows become items of the table and items become rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import MISSING, Field, FrozenInstanceError, field
from enum import Enum
from functools import cache
from typing import Any, NamedTuple, NoReturn, Self, cast, dataclass_transform, get_type_hints

from shardmill.store.codec import to_json

_JSON = "json"
_NUMBER_BYTES = 21


def json_field(empty: Callable[[], Any] = dict) -> Any:
    """A field that is stored as JSON text, because no expression needs to look inside."""
    return field(default_factory=empty, metadata={_JSON: True})


class _Plan(NamedTuple):
    """How the fields of a row and the attributes of an item correspond."""

    names: Mapping[str, bool]
    """Each field, and whether it is stored as JSON."""
    decoders: Mapping[str, Callable[[Any], Any] | None]
    required: AbstractSet[str]
    defaults: Mapping[str, Any]
    factories: Sequence[tuple[str, Callable[[], Any]]]


@cache
def _plan(row: Any) -> _Plan:
    hints = get_type_hints(row)
    given = {name: row.__dict__.get(name, MISSING) for name in hints}
    made = {name: each for name, each in given.items() if isinstance(each, Field)}
    stored_as_json = {name for name, each in made.items() if _JSON in each.metadata}
    return _Plan(
        names={name: name in stored_as_json for name in hints},
        decoders={name: json.loads if name in stored_as_json else _enum(hints[name]) for name in hints},
        required={name for name, each in given.items() if each is MISSING},
        defaults={name: each for name, each in given.items() if each is not MISSING and name not in made},
        factories=[(name, cast(Callable[[], Any], each.default_factory)) for name, each in made.items()],
    )


def _enum(hint: Any) -> Callable[[Any], Any] | None:
    """Converts the value of an attribute to the value of a field; text, numbers and sets are unchanged."""
    return hint if isinstance(hint, type) and issubclass(hint, Enum) else None


def _bytes(value: Any) -> int:
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, Mapping):
        return sum(len(name) + _bytes(each) + 1 for name, each in value.items())
    return sum(_bytes(each) + 1 for each in value) if isinstance(value, Iterable) else _NUMBER_BYTES


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Row:
    """An immutable value that is stored as one item, with one attribute for each field.

    Its subclasses are declared like dataclasses. They are not dataclasses, because `dataclass` compiles six
    methods for each class, which adds several milliseconds to each cold start.
    """

    def __init__(self, *args: Any, **values: Any) -> None:
        names = _plan(cast(Hashable, type(self))).names
        given = dict(zip(names, args, strict=False))
        wrong = (values.keys() - names.keys()) | (values.keys() & given.keys())
        if wrong or len(args) > len(names):
            raise TypeError(f"{type(self).__name__} takes each of its fields once: {sorted(wrong)}")
        self._fill(given | values)

    @classmethod
    def from_item(cls, item: Mapping[str, Any]) -> Self:
        decoders = _plan(cast(Hashable, cls)).decoders
        values = {
            name: decode(value) if (decode := decoders[name]) else value
            for name, value in item.items()
            if name in decoders
        }
        row = object.__new__(cls)
        row._fill(values)
        return row

    def _fill(self, values: Mapping[str, Any]) -> None:
        plan = _plan(cast(Hashable, type(self)))
        own = self.__dict__
        own.update(plan.defaults)
        for name, factory in plan.factories:
            if name not in values:
                own[name] = factory()
        own.update(values)
        missing = plan.required - own.keys()
        if missing:
            raise TypeError(
                f"the item lacks attributes that {type(self).__name__} requires: {sorted(missing)}"
            )

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise FrozenInstanceError(f"a row is immutable; evolve it to change {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(f"a row is immutable; cannot delete {name!r}")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._values() == other._values()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._values())})"

    def _values(self) -> list[tuple[str, Any]]:
        return [(name, self.__dict__[name]) for name in self.names()]

    @classmethod
    def names(cls) -> list[str]:
        """The names of the fields."""
        return list(_plan(cast(Hashable, cls)).names)

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
