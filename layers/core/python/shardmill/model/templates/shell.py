r"""Putting values into shell text so that each stays data, wherever in the text it stands.

`shlex.quote` alone is right only outside of quotes: in `echo "{{ params.x }}"` its single quotes would be
literal, and `$(…)` in the value would run. So the quotes around the place are followed, closed before the
value and opened after it. Where a value cannot be made safe (here-documents, arithmetic, old-style
backquotes), only one that needs no quoting is taken.
"""

from __future__ import annotations

import re
import shlex
from enum import Enum

_INERT = re.compile(r"[\w@%+=:,./-]*\Z", re.ASCII)
# Whole expansions that no value stands in: they change nothing around them.
_CLOSED = re.compile(r"""\$\{[^'"`$\\{}]*\} | \$\(\([^'"`\\()]*\)\) | `[^`'"\\$]*`""", re.VERBOSE)
_RISKY = re.compile(r"""\$\{ | \$\(\( | \$' | ` | (?<!<)<<(?!<) | \(\( | \$\[""", re.VERBOSE)
_CASE = re.compile(r"case\s")
_COMMENT = re.compile(r"#[^\n]*")
_BEFORE_WORD = " \t\n;&|()"


class _Place(Enum):
    PLAIN = "plain"
    SINGLE = "'"
    DOUBLE = '"'


class ShellText:
    """Follows literal shell text piece by piece and quotes the values that come between."""

    def __init__(self) -> None:
        self._places = [_Place.PLAIN]
        self._opaque = False
        self._in_comment = False
        self._last = "\n"

    def quoted(self, value: str) -> str:
        """The value as it must stand here. Raises ValueError where it cannot be made safe."""
        self._last = "x"
        if _INERT.match(value) and (value or self._places[-1] is not _Place.PLAIN):
            return value
        if "\0" in value:
            raise ValueError("a value with a NUL character cannot be part of a command")
        if self._opaque:
            raise ValueError(
                "a value with special characters is not safe inside or after a here-document, backquotes, "
                "arithmetic or a nested expansion; use its environment variable instead"
            )
        if self._in_comment:
            return shlex.quote(" ".join(value.splitlines()))
        quote = "" if self._places[-1] is _Place.PLAIN else self._places[-1].value
        return quote + shlex.quote(value) + quote

    def feed(self, text: str) -> None:
        at = 0
        while at < len(text) and not self._opaque:
            at = self._step(text, at)
            self._last = text[at - 1]

    def _step(self, text: str, at: int) -> int:
        """Take what begins at `at`; says where the next thing begins."""
        place = self._places[-1]
        if self._in_comment:
            self._in_comment = text[at] != "\n"
            return at + 1
        if place is _Place.SINGLE:
            if text[at] == "'":
                self._places.pop()
            return at + 1
        if text[at] == "\\":
            self._opaque = at + 1 == len(text)
            return at + 2 if at + 1 < len(text) else at + 1
        if closed := _CLOSED.match(text, at):
            return closed.end()
        if place is _Place.DOUBLE:
            return self._step_in_double(text, at)
        return self._step_in_plain(text, at)

    def _step_in_double(self, text: str, at: int) -> int:
        if text[at] == '"':
            self._places.pop()
        elif text.startswith("$(", at) and not text.startswith("$((", at):
            self._places.append(_Place.PLAIN)
            return at + 2
        elif text[at] == "`" or text.startswith(("${", "$(("), at):
            self._opaque = True
        return at + 1

    def _step_in_plain(self, text: str, at: int) -> int:
        starts_word = self._last in _BEFORE_WORD
        if _RISKY.match(text, at) or (starts_word and len(self._places) > 1 and _CASE.match(text, at)):
            self._opaque = True
        elif text[at] == "'":
            self._places.append(_Place.SINGLE)
        elif text[at] == '"':
            self._places.append(_Place.DOUBLE)
        elif text[at] == "(":
            self._places.append(_Place.PLAIN)
        elif text[at] == ")" and len(self._places) > 1:
            self._places.pop()
        elif text[at] == "#" and starts_word:
            self._in_comment = True
        elif text[at] == "$" and at + 1 == len(text):
            self._opaque = True
        return at + 1
