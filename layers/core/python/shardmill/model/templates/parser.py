"""The parser of expressions inside `{{ }}`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from functools import lru_cache
from typing import NoReturn

from shardmill.model.templates.expression import (
    FILTERS,
    KNOWN_FILTERS,
    ORDERS,
    Access,
    Compared,
    Expression,
    Filtered,
    Joined,
    Literal,
    Not,
    Path,
    TemplateError,
)

MAX_LENGTH = 1_000
MAX_NESTING = 20

_TEXT = r"""'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+\""""
_ACCESS = rf"""\.(?P<word>[\w-]+)|\[\s*(?:(?P<index>0|[1-9]\d*)|(?P<key>{_TEXT}))\s*\]"""
_NAME = r"[a-zA-Z_][\w-]*"
_TOKEN = re.compile(
    rf"""\s*+(?:(?P<number>-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.]))
    |(?P<text>{_TEXT})
    |(?P<name>{_NAME})(?P<accesses>(?:{re.sub(r"[?]P<[a-z]+>", "?:", _ACCESS)})*+)
    |(?P<sign>==|!=|<=|>=|[<>|()])
    |(?P<end>\Z))""",
    re.ASCII | re.DOTALL | re.VERBOSE,
)
_EACH_ACCESS = re.compile(_ACCESS, re.ASCII | re.DOTALL)
_ESCAPE = re.compile(r'\\.|"', re.DOTALL)
_BLANKS = " \t\n\r\f\v"
_WORDS = {"true": True, "false": False, "null": None}
_RESERVED = frozenset({"and", "or", "not", "in"})


def parse(text: str) -> Expression:
    """Parse an expression; raises TemplateError with the position of the error."""
    if len(text) > MAX_LENGTH:
        raise TemplateError(f"it has {len(text)} characters; at most {MAX_LENGTH} are allowed")
    return _parsed(text)


@lru_cache(maxsize=1_024)
def _parsed(text: str) -> Expression:
    return _Parser(text).whole()


class _Parser:
    """A recursive descent parser with one token of look-ahead."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._end = 0
        self._nesting = 0
        self._advance()

    def whole(self) -> Expression:
        found = self._joined("or")
        if self._token.lastgroup != "end":
            self._unexpected()
        return found

    def _advance(self) -> None:
        token = _TOKEN.match(self._text, self._end)
        if token is None:
            rest = self._text[self._end :].lstrip(_BLANKS)
            if rest[0] in "'\"":
                raise TemplateError(f"the quote {rest[0]} is not closed")
            raise TemplateError(f"{rest[:16]!r} is unexpected")
        self._token, self._end = token, token.end()
        self._word = token["sign"] or (token["name"] if not token["accesses"] else "") or ""

    def _takes(self, word: str) -> bool:
        if self._word != word:
            return False
        self._advance()
        return True

    def _unexpected(self) -> NoReturn:
        if self._token.lastgroup == "end":
            raise TemplateError("it ends unexpectedly")
        raise TemplateError(f"{self._token[0].strip()[:64]!r} is unexpected")

    def _nested(self, read: Callable[[], Expression]) -> Expression:
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            raise TemplateError(f"it is nested deeper than {MAX_NESTING} levels")
        found = read()
        self._nesting -= 1
        return found

    def _joined(self, word: str) -> Expression:
        part = self._negated if word == "and" else lambda: self._joined("and")
        parts = [part()]
        while self._takes(word):
            parts.append(part())
        return Joined(word, tuple(parts)) if len(parts) > 1 else parts[0]

    def _negated(self) -> Expression:
        return Not(self._nested(self._negated)) if self._takes("not") else self._compared()

    def _compared(self) -> Expression:
        left = self._filtered()
        if sign := self._comparison():
            left = Compared(left, sign, self._filtered())
            if self._comparison():
                raise TemplateError("comparisons cannot be chained: join them with and, or use parentheses")
        return left

    def _comparison(self) -> str:
        if self._takes("not"):
            if self._word != "in":
                self._unexpected()
            self._advance()
            return "not in"
        sign = self._word if self._word in ("==", "!=", "in", *ORDERS) else ""
        if sign:
            self._advance()
        return sign

    def _filtered(self) -> Expression:
        of, filters = self._operand(), []
        while self._takes("|"):
            filters.append(self._filter())
        return Filtered(of, tuple(filters)) if filters else of

    def _filter(self) -> str | Literal:
        name = self._word
        if name != "default" and name not in FILTERS:
            found = self._token[0].strip()[:64]
            raise TemplateError(f"unknown filter {found!r}: the filters are {KNOWN_FILTERS}")
        self._advance()
        if name != "default":
            return name
        literal = self._operand() if self._takes("(") else None
        if not isinstance(literal, Literal) or not self._takes(")"):
            raise TemplateError("default takes one literal, such as default(0) or default('none')")
        return literal

    def _operand(self) -> Expression:
        token = self._token
        if self._takes("("):
            found = self._nested(lambda: self._joined("or"))
            if not self._takes(")"):
                self._unexpected()
            return found
        if token.lastgroup == "end" or token["sign"] or self._word in _RESERVED:
            self._unexpected()
        self._advance()
        if token["number"]:
            return Literal(_number(token["number"]))
        if token["text"]:
            return Literal(_text(token["text"]))
        if not token["accesses"] and token["name"] in _WORDS:
            return Literal(_WORDS[token["name"]])
        return _path(token["name"], token["accesses"])


def _path(root: str, written: str) -> Path:
    accesses: list[Access] = []
    dotted = 0
    for each in _EACH_ACCESS.finditer(written):
        if each["word"] and dotted == len(accesses):
            dotted += 1
        accesses.append(
            each["word"] or (int(each["index"]) if each["index"] is not None else _text(each["key"]))
        )
    if not accesses and root != "item":
        raise TemplateError(f"{root[:64]!r} must be followed by a name, such as params.date")
    return Path(root, tuple(accesses), max(dotted, 1) if root == "params" else 1)


def _number(written: str) -> int | float:
    if not set(written) & set(".eE"):
        return int(written)
    if math.isinf(number := float(written)):
        raise TemplateError(f"{written[:64]} is too large")
    return number


def _text(written: str) -> str:
    """A quoted string, with the escapes of JSON and one for the single quote."""
    spelt = _ESCAPE.sub(lambda found: {"\\'": "'", '"': '\\"'}.get(found[0], found[0]), written[1:-1])
    try:
        text = json.loads(f'"{spelt}"', strict=False)
        text.encode()
    except ValueError:
        raise TemplateError(
            f"{written[:64]} contains an invalid escape sequence; write \\\\ for a backslash"
        ) from None
    return str(text)
