"""Placeholders of templates, such as `#jobname`, that the submitter did not fill in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_PLACEHOLDER = re.compile(r"(?<![0-9A-Za-z&])#([A-Za-z][A-Za-z0-9_]*)")
_USUAL = frozenset(
    ("jobname", "project", "user", "clientgroups", "inputfile", "shockurl", "shocknode", "totalwork")
)
_FREE_TEXT = frozenset(("args", "args_array", "description", "environ", "userattr", "options"))
"""Fields in which a `#` may be meant as it is."""


def unfilled(document: Any) -> list[str]:
    """The names of placeholders that are left in a document, in their order.

    In arguments and other free text, only names that are usual, that stand after an `@`, or that are also
    used elsewhere count: `--colour=#fff` is no placeholder.
    """
    strict, free = list[str](), list[tuple[str, bool]]()
    for text, is_free in _texts(document, False):
        for found in _PLACEHOLDER.finditer(text):
            if is_free:
                free.append((found[1], found.start() > 0 and text[found.start() - 1] == "@"))
            else:
                strict.append(found[1])
    known = {*strict, *_USUAL}
    return list(dict.fromkeys([*strict, *(name for name, at in free if at or name in known)]))


def unfilled_in_text(text: str) -> list[str]:
    """The placeholders in a text that is not JSON: the usual ones, and those that stand for a value."""
    values = re.findall(r":\s*#([A-Za-z][A-Za-z0-9_]*)\s*[,}\]]", text)
    usual = [found[1] for found in _PLACEHOLDER.finditer(text) if found[1] in _USUAL]
    return list(dict.fromkeys([*values, *usual]))


def _texts(value: Any, free: bool) -> Iterator[tuple[str, bool]]:
    if isinstance(value, str):
        yield value, free
    elif isinstance(value, dict):
        for name, each in value.items():
            if isinstance(name, str) and not free:
                yield name, free
            yield from _texts(each, free or name in _FREE_TEXT)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each, free)
