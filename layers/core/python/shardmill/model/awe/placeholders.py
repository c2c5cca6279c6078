"""Placeholders of templates, such as `#jobname`, and `{{`, which is plain text in AWE documents."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_PLACEHOLDER = re.compile(r"(?<![0-9A-Za-z&])#([A-Za-z][A-Za-z0-9_]*)")
_USUAL = frozenset(
    ("jobname", "project", "user", "clientgroups", "inputfile", "shockurl", "shocknode", "totalwork")
)
_FREE_TEXT = frozenset(("args", "args_array", "description", "environ", "userattr", "options"))
"""Fields in which a `#` can be literal."""
_VALUES = frozenset(("public", "userattr"))
"""Objects of free text whose values may be placeholders. Private values appear in no error."""
_QUOTED = re.compile(r"'[^']*'|\"(?:[^\"\\\\]|\\\\.)*\"")
_WORD = re.compile(r"(?:^|(?<=[\s=@,:]))#([A-Za-z][A-Za-z0-9_]*)")
_BRACES = re.compile(r"\$*\{\{")
_LITERAL_BRACES = re.compile(r"\{\{ '(\$*\{\{)' \}\}")
_COLOUR = re.compile(r"(?:[0-9A-Fa-f]{3,4}){1,2}\Z")


def unfilled(document: Any) -> list[str]:
    """The names of unfilled placeholders in a document, in order.

    In arguments and other free text, a name counts if it is a usual one, follows an `@`, is used elsewhere,
    begins a word or is a whole value. `--colour=#fff` and `'#CHROM'` are not placeholders.
    """
    strict, free = list[str](), list[tuple[str, bool]]()
    for text, field in _texts(document):
        if field:
            free += _in_free_text(text, field)
        else:
            strict += _PLACEHOLDER.findall(text)
    known = {*strict, *_USUAL}
    return list(dict.fromkeys([*strict, *(name for name, sure in free if sure or name in known)]))


def _in_free_text(text: str, field: str) -> Iterator[tuple[str, bool]]:
    """The names in the free text of a field, and whether each is certainly a placeholder."""
    begun = _beginnings(text, field)
    for found in _PLACEHOLDER.finditer(text):
        yield found[1], found[1] in begun or text[: found.start()].endswith("@")


def _beginnings(text: str, field: str) -> set[str]:
    """The names with which a value, or a word of arguments that is not quoted, begins."""
    if field == "args":
        names = _WORD.findall(_QUOTED.sub("''", text))
    else:
        names = _PLACEHOLDER.findall(text) if field in _VALUES and _PLACEHOLDER.fullmatch(text) else []
    return {name for name in names if not _COLOUR.match(name)}


def unfilled_in_text(text: str) -> list[str]:
    """The placeholders in a text that is not JSON: usual ones, and placeholders that stand for a value."""
    values = re.findall(r":\s*#([A-Za-z][A-Za-z0-9_]*)\s*[,}\]]", text)
    usual = [found[1] for found in _PLACEHOLDER.finditer(text) if found[1] in _USUAL]
    return list(dict.fromkeys([*values, *usual]))


def _texts(value: Any, field: str = "") -> Iterator[tuple[str, str]]:
    """The texts of a document, each with the field that makes it free text; empty if it is not."""
    if isinstance(value, str):
        yield value, field
    elif isinstance(value, dict):
        for name, each in value.items():
            if isinstance(name, str) and not field:
                yield name, field
            inner = field or (name if name in _FREE_TEXT else "")
            yield from _texts(each, name if inner and name in _VALUES else inner)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each, field)


def literal(text: str) -> str:
    """A text of an AWE document in which the engine finds no template.

    A `$` before `{{` becomes a part of the value: a shell, whose rules apply to `args`, would read `${`.
    """
    return _BRACES.sub(r"{{ '\g<0>' }}", text)


def plain_text(text: str) -> str:
    """The text of a document again, from what `literal` made of it."""
    return _LITERAL_BRACES.sub(r"\1", text)
