"""Texts of AWE documents in definitions, where `{{` would begin a template."""

from __future__ import annotations

import re

_BRACES = re.compile(r"\$*\{\{")
_LITERAL_BRACES = re.compile(r"\{\{ '(\$*\{\{)' \}\}")


def literal(text: str) -> str:
    """A text of an AWE document in which the engine finds no template.

    A `$` before `{{` becomes a part of the value: a shell, whose rules apply to `args`, would read `${`.
    """
    return _BRACES.sub(r"{{ '\g<0>' }}", text)


def plain_text(text: str) -> str:
    """The text of a document again, from what `literal` made of it."""
    return _LITERAL_BRACES.sub(r"\1", text)
