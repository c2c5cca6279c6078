"""Faults of a document, each with a code, a message and a place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import get_args

from pydantic import BaseModel, ValidationError

from shardmill.model.base import Answer

Path = tuple[str | int, ...]

MAX_FAULTS = 1_000
MAX_HINTS = 100

_CODES = {
    "missing": "missing-field",
    "extra_forbidden": "unknown-field",
    "greater_than": "out-of-range",
    "greater_than_equal": "out-of-range",
    "less_than": "out-of-range",
    "less_than_equal": "out-of-range",
    "too_short": "out-of-range",
    "too_long": "out-of-range",
    "string_too_short": "out-of-range",
    "string_too_long": "out-of-range",
    "literal_error": "bad-value",
}

_MESSAGES = {
    "missing": "is required",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "dict_type": "must be an object",
    "list_type": "must be a list",
    "string_type": "must be a string",
}


class Fault(Answer):
    """`pointer` is an RFC 6901 JSON pointer into the document as it was sent."""

    pointer: str
    code: str
    message: str


def fault(path: Path, code: str, message: str) -> Fault:
    return Fault(pointer=pointer(path), code=code, message=message)


def pointer(path: Path) -> str:
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A suggestion of the most similar known name, or an empty string."""
    from difflib import get_close_matches  # imported only for invalid documents

    if len(name) > 64:
        return ""
    plain = {known_name.lower(): known_name for known_name in known}
    near = get_close_matches(name.lower().replace("_", ""), plain, n=1)
    return f"; did you mean {plain[near[0]]!r}?" if near else ""


def faults_of(
    error: ValidationError,
    root: type[BaseModel],
    origins: Mapping[Path, Path],
    other_spellings: Mapping[type[BaseModel], Iterable[str]],
) -> list[Fault]:
    """Convert the errors of Pydantic, with pointers into the document as it was sent."""
    faults, hints = [], 0
    for each in error.errors(include_url=False, include_context=False, include_input=False):
        path = tuple(part for part in each["loc"] if part != "[key]")
        code, message = code_and_message(each["type"], each["msg"], path)
        if code == "unknown-field":
            hints += 1
            model = _model_at(root, path[:-1])
            if model is not None and hints <= MAX_HINTS:
                known = [*_aliases(model), *other_spellings.get(model, ())]
                message += did_you_mean(str(path[-1]), known)
        faults.append(fault(as_sent(path, origins), code, message))
    return faults


def code_and_message(kind: str, message: str, path: Path) -> tuple[str, str]:
    """The code and the message for one of Pydantic's errors."""
    code = _code(kind)
    if code == "unknown-field":
        return code, f"unknown field {str(path[-1])[:64]!r}"
    return code, _MESSAGES.get(kind) or message.replace("Input should be", "must be")


def as_sent(path: Path, origins: Mapping[Path, Path]) -> Path:
    """The path of a value before it was moved to its canonical place."""
    for length in range(len(path), -1, -1):
        origin = origins.get(path[:length])
        if origin is not None:
            return origin + path[length:]
    return path


def in_order(faults: Iterable[Fault]) -> list[Fault]:
    """Sort faults by pointer, without duplicates, and limit their number."""
    unique = {(each.pointer, each.code, each.message): each for each in faults}.values()
    ordered = sorted(unique, key=lambda each: [_rank(part) for part in each.pointer.split("/")])
    if len(ordered) <= MAX_FAULTS:
        return ordered
    left = len(ordered) - MAX_FAULTS
    return [*ordered[:MAX_FAULTS], fault((), "too-many-faults", f"{left} more faults are not shown")]


def _rank(part: str) -> tuple[int, str]:
    return (int(part), "") if part.isdecimal() and part.isascii() and len(part) < 10 else (-1, part)


def _code(pydantic_type: str) -> str:
    if pydantic_type in _CODES:
        return _CODES[pydantic_type]
    if "-" in pydantic_type:  # a code of this package
        return pydantic_type
    return "bad-type" if pydantic_type.endswith(("_type", "_parsing", "_from_float")) else "bad-value"


def _model_at(model: type[BaseModel] | None, path: Path) -> type[BaseModel] | None:
    for part in path:
        if isinstance(part, int) or model is None:
            continue
        by_alias = {info.alias or name: info for name, info in model.model_fields.items()}
        model = _model_in(by_alias[part].annotation) if part in by_alias else None
    return model


def _model_in(annotation: object) -> type[BaseModel] | None:
    """The model in `Model`, `Model | None` or `list[Model]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part))), None)


def _aliases(model: type[BaseModel]) -> list[str]:
    return [info.alias or name for name, info in model.model_fields.items()]
