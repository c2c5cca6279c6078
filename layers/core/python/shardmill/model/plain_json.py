"""Checks that a document is JSON that can be stored, before its content is validated."""

from __future__ import annotations

from math import isfinite
from typing import Any

from shardmill.model.fault import MAX_FAULTS, Fault, Path, fault

MAX_DEPTH = 32


def plain_faults(document: object) -> list[Fault]:
    """Faults of values and keys that JSON or DynamoDB cannot represent, and of nesting deeper than 32."""
    faults: list[Fault] = []
    left: list[tuple[Path, Any]] = [((), document)]
    while left and len(faults) <= MAX_FAULTS:
        path, value = left.pop()
        if isinstance(value, (dict, list)):
            if len(path) >= MAX_DEPTH:
                faults.append(fault(path, "too-deep", f"is nested deeper than {MAX_DEPTH} levels"))
            elif isinstance(value, list):
                left.extend(((*path, at), each) for at, each in enumerate(value))
            else:
                for key, each in value.items():
                    faults.extend(_key_faults(path, key))
                    left.append(((*path, str(key)), each))
        else:
            faults.extend(_value_faults(path, value))
    return faults


def _key_faults(path: Path, key: object) -> list[Fault]:
    if not isinstance(key, str):
        return [fault((*path, str(key)), "not-json", "a key must be a string; put it in quotes")]
    return _text_faults((*path, key), key)


def _value_faults(path: Path, value: object) -> list[Fault]:
    if isinstance(value, str):
        return _text_faults(path, value)
    if isinstance(value, float) and not isfinite(value):
        return [fault(path, "not-json", "must be a finite number")]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**38:
        return [fault(path, "out-of-range", "has more than 38 digits; give it as a string")]
    if value is None or isinstance(value, (bool, int, float)):
        return []
    return [fault(path, "not-json", f"{type(value).__name__} is not a JSON value; put it in quotes")]


def _text_faults(path: Path, text: str) -> list[Fault]:
    if "\0" in text:
        return [fault(path, "bad-text", "contains a NUL character")]
    try:
        text.encode()
    except UnicodeEncodeError:
        return [fault(path, "bad-text", "contains half of a surrogate pair, which is not valid Unicode")]
    return []
