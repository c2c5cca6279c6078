r"""Quoting of values in shell text, so that a value is never interpreted by the shell.

`shlex.quote` is correct only outside of quotes: in `echo "{{ params.x }}"` its single quotes would be
literal, and `$(…)` in the value would run. Therefore the quotes around each placeholder are tracked, closed
before the value and opened again after it. Where a value cannot be quoted safely (here-documents, arithmetic,
backquotes), only values that need no quoting are accepted.
"""

from __future__ import annotations

import re
import shlex
from enum import Enum

_INERT = re.compile(r"[\w@%+=:,./-]*\Z", re.ASCII)
# Complete expansions without a value inside do not affect the text around them.
_CLOSED = re.compile(r"""\$\{[^'"`$\\{}]*\} | \$\(\([^'"`\\()]*\)\) | `[^`'"\\$]*`""", re.VERBOSE)
_RISKY = re.compile(r"""\$\{ | \$\(\( | \$' | ` | (?<!<)<<(?!<) | \(\( | \$\[""", re.VERBOSE)
_CASE = re.compile(r"case\s")
_BEFORE_WORD = " \t\n;&|()"


class _Place(Enum):
    PLAIN = "plain"
    SINGLE = "'"
    DOUBLE = '"'


class ShellText:
    """Tracks literal shell text piece by piece and quotes the values between the pieces."""

    def __init__(self) -> None:
        self._places = [_Place.PLAIN]
        self._opaque = False
        self._in_comment = False
        self._last = "\n"

    def quoted(self, value: str) -> str:
        """Quote a value for the current position; raises ValueError if it cannot be made safe."""
        self._last = "x"
        if _INERT.match(value) and (value or self._places[-1] is not _Place.PLAIN):
            return value
        if "\0" in value:
            raise ValueError("a command cannot contain a NUL character")
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
        """Process the token at `at`; returns the position after it."""
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
