"""Expressions inside `{{ }}`: a small language over JSON values, without code, loops or arithmetic.

In order of increasing precedence: `or`, `and`, `not`, one comparison, filters, then a path, a literal or
parentheses. A literal may be private (in `environ.private`), so error messages contain no literals.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

MAX_TEXT = 1_000_000

Access = str | int

_WORD = re.compile(r"[\w-]+\Z", re.ASCII)
ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class TemplateError(ValueError):
    """A template cannot be rendered."""


class Missing(TemplateError):
    """A path has no value, or a list has no element; the filter `default` handles these."""


def is_true(value: Any) -> bool:
    """Whether a JSON value is true: all but null, false, 0, empty values and the string "false"."""
    return value.lower() not in ("", "false") if isinstance(value, str) else bool(value)


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal: 1 is 1.0, but true is not 1."""
    left = [(one, other)]
    while left:
        a, b = left.pop()
        if isinstance(a, dict) and isinstance(b, dict):
            if a.keys() != b.keys():
                return False
            left.extend((a[key], b[key]) for key in a)
        elif isinstance(a, list) and isinstance(b, list):
            if len(a) != len(b):
                return False
            left.extend(zip(a, b, strict=True))
        elif isinstance(a, bool) != isinstance(b, bool) or a != b:
            return False
    return True


def kind(value: Any) -> str:
    """The type of a JSON value for messages."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, str):
        return "a string"
    if isinstance(value, list):
        return "a list"
    return "an object" if isinstance(value, dict) else "a number"


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class Expression(Protocol):
    """A parsed expression; `str()` spells it without its literals."""

    def value(self, context: Mapping[str, Any]) -> Any: ...

    def paths(self) -> Iterator[tuple[Path, bool]]:
        """Each path, and whether its value may be missing because a `default` follows."""


@dataclass(frozen=True, slots=True)
class Literal:
    constant: Any

    def __str__(self) -> str:
        return "…"

    def value(self, _context: Mapping[str, Any]) -> Any:
        return self.constant

    def paths(self) -> Iterator[tuple[Path, bool]]:
        return iter(())


@dataclass(frozen=True, slots=True)
class Path:
    """`root.word[0]["key"]`; the first `dotted` accesses of a parameter may be one name with dots."""

    root: str
    accesses: tuple[Access, ...]
    dotted: int = 1

    def __str__(self) -> str:
        return self.root + "".join(map(_spelled, self.accesses))

    def value(self, context: Mapping[str, Any]) -> Any:
        if self.root not in context:
            self._missing(f"{self.root} is not available")
        value, at = context[self.root], 0
        if self.dotted > 1 and isinstance(value, dict):
            for left, name in enumerate(self.heads()):
                if name in value:
                    value, at = value[name], self.dotted - left
                    break
        for access in self.accesses[at:]:
            if isinstance(access, str):
                there = isinstance(value, dict) and access in value
            else:
                there = isinstance(value, list) and access < len(value)
            if not there:
                self._missing(self._reason(at, value))
            value, at = value[access], at + 1
        return value

    def paths(self) -> Iterator[tuple[Path, bool]]:
        yield self, False

    def heads(self) -> Iterator[str]:
        """The possible names of the parameter, the longest first."""
        return (".".join(map(str, self.accesses[:count])) for count in range(self.dotted, 0, -1))

    def _missing(self, reason: str) -> NoReturn:
        raise Missing(f"{{{{ {self} }}}} has no value here: {reason}")

    def _reason(self, at: int, value: Any) -> str:
        access, parent = self.accesses[at], Path(self.root, self.accesses[:at])
        if not isinstance(value, dict if isinstance(access, str) else list):
            wanted = "an object" if isinstance(access, str) else "a list"
            return f"{parent} is {kind(value)}, not {wanted}"
        if isinstance(access, str):
            return f"{parent} has no {access[:64]!r}"
        return f"{parent} has only {len(value)} elements"


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter: the types that it accepts, and its function."""

    takes: tuple[type, ...]
    wanted: str
    make: Callable[[Any], Any]


FILTERS = {
    "first": Filter((list,), "a list", lambda value: value[0]),
    "json": Filter((object,), "any value", compact),
    "last": Filter((list,), "a list", lambda value: value[-1]),
    "length": Filter((str, list, dict), "a string, a list or an object", len),
    "lower": Filter((str,), "a string", str.lower),
    "upper": Filter((str,), "a string", str.upper),
}
KNOWN_FILTERS = ", ".join(sorted(["default(LITERAL)", *FILTERS]))


@dataclass(frozen=True, slots=True)
class Filtered:
    """A value with filters applied in order, each by its name; a Literal stands for `default`."""

    of: Expression
    filters: tuple[str | Literal, ...]

    def __str__(self) -> str:
        return " | ".join(
            [_inner(self.of), *(each if isinstance(each, str) else "default(…)" for each in self.filters)]
        )

    def value(self, context: Mapping[str, Any]) -> Any:
        value, missing = None, None  # raised unless a default follows
        try:
            value = self.of.value(context)
        except Missing as error:
            missing = error
        for each in self.filters:
            if isinstance(each, Literal):
                if value is None:
                    value, missing = each.constant, None
            elif missing is None:
                try:
                    value = self._made(each, value)
                except Missing as error:
                    value, missing = None, error
        if missing is not None:
            raise missing
        return value

    def paths(self) -> Iterator[tuple[Path, bool]]:
        optional = any(isinstance(each, Literal) for each in self.filters)
        return ((path, optional or already) for path, already in self.of.paths())

    def _made(self, name: str, value: Any) -> Any:
        each = FILTERS[name]
        if not isinstance(value, each.takes):
            raise TemplateError(f"{{{{ {self} }}}}: {name} takes {each.wanted}, not {kind(value)}")
        if not value and each.takes == (list,):
            raise Missing(f"{{{{ {self} }}}} has no value here: {name} of an empty list")
        made = each.make(value)
        # Each `json` of a string may double its length.
        if isinstance(made, str) and len(made) > MAX_TEXT:
            raise TemplateError(f"{{{{ {self} }}}}: {name} results in more than {MAX_TEXT} characters")
        return made


@dataclass(frozen=True, slots=True)
class Compared:
    left: Expression
    sign: str
    right: Expression

    def __str__(self) -> str:
        return f"{_inner(self.left)} {self.sign} {_inner(self.right)}"

    def value(self, context: Mapping[str, Any]) -> bool:
        left, right = self.left.value(context), self.right.value(context)
        if self.sign in ORDERS:
            return self._ordered(left, right)
        met = self._within(left, right) if self.sign.endswith("in") else same(left, right)
        return met != self.sign.startswith(("!", "not"))

    def paths(self) -> Iterator[tuple[Path, bool]]:
        yield from self.left.paths()
        yield from self.right.paths()

    def _ordered(self, left: Any, right: Any) -> bool:
        if {kind(left), kind(right)} not in ({"a number"}, {"a string"}):
            raise TemplateError(
                f"{{{{ {self} }}}}: {kind(left)} and {kind(right)} cannot be ordered; "
                "compare numbers with numbers, and strings with strings"
            )
        return ORDERS[self.sign](left, right)

    def _within(self, left: Any, right: Any) -> bool:
        if isinstance(right, list):
            return any(same(left, each) for each in right)
        if isinstance(left, str) and isinstance(right, (str, dict)):
            return left in right
        raise TemplateError(
            f"{{{{ {self} }}}}: {kind(left)} cannot be in {kind(right)}; "
            "a value can be in a list, a string in a string or among the keys of an object"
        )


@dataclass(frozen=True, slots=True)
class Joined:
    """Operands joined by `and` or `or`, with short-circuit evaluation."""

    word: str
    parts: tuple[Expression, ...]

    def __str__(self) -> str:
        return f" {self.word} ".join(map(_inner, self.parts))

    def value(self, context: Mapping[str, Any]) -> bool:
        truths = (is_true(part.value(context)) for part in self.parts)
        return any(truths) if self.word == "or" else all(truths)

    def paths(self) -> Iterator[tuple[Path, bool]]:
        for part in self.parts:
            yield from part.paths()


@dataclass(frozen=True, slots=True)
class Not:
    of: Expression

    def __str__(self) -> str:
        return f"not {_inner(self.of)}"

    def value(self, context: Mapping[str, Any]) -> bool:
        return not is_true(self.of.value(context))

    def paths(self) -> Iterator[tuple[Path, bool]]:
        return self.of.paths()


def _spelled(access: Access) -> str:
    if isinstance(access, int):
        return f"[{access}]"
    return f".{access}" if _WORD.match(access) else f"[{compact(access)}]"


def _inner(each: Expression) -> str:
    return f"({each})" if isinstance(each, (Compared, Joined, Not)) else str(each)
