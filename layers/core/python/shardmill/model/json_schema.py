"""Rules between the fields of a request as JSON Schema, for the OpenAPI document.

The validators of the models enforce the same rules; a test sends requests that the schemas allow and forbid.
"""

from __future__ import annotations

from typing import Any

Rule = dict[str, Any]

NULL: Rule = {"type": "null"}
NOT_NULL: Rule = {"not": NULL}
EMPTY: Rule = {"maxItems": 0}
NOT_EMPTY: Rule = {"minItems": 1}


def absent(*names: str) -> Rule:
    """The fields are null or not given."""
    return where(**dict.fromkeys(names, NULL))


def present(*names: str) -> Rule:
    """The fields are given and not null."""
    return {"required": list(names), **where(**dict.fromkeys(names, NOT_NULL))}


def where(**fields: Rule) -> Rule:
    """Each given field matches its rule."""
    return {"properties": fields}


def both(*rules: Rule) -> Rule:
    return {"allOf": list(rules)}


def either(*rules: Rule) -> Rule:
    return {"anyOf": list(rules)}


def only_with(name: str, other: str) -> Rule:
    """`name` may be given only together with `other`."""
    return either(absent(name), present(other))


def one_of(*names: str) -> Rule:
    """Exactly one of the fields is given."""
    return either(*(both(present(name), absent(*(each for each in names if each != name))) for name in names))
