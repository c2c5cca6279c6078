"""References to files in the arguments of a command: `@name` is the path of a file, `@@` a plain @.

A name extends to the end of its word if that is the name of a file, and otherwise to the first character of
`SEPARATORS`. An @ before such a character, or at the end of a word, is plain. So is every @ of a value that a
template inserts; only the text of the definition refers to files.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count, product
from typing import Any

from shardmill.model.files import fits, has_wildcard
from shardmill.model.templates.render import split_placeholders

SEPARATORS = frozenset(" \t\r\n,;:|&<>()\"'`$\\@")
_VALUE = "\0"  # placeholder of a value that is not known yet
_WILDCARDS = "*?["


@dataclass(frozen=True, slots=True)
class Reference:
    """`@name` in a word, from `start` to `end`; `known`: whether it is a file."""

    name: str
    start: int
    end: int
    known: bool


def references(word: str, is_file: Callable[[str], bool]) -> Iterator[Reference]:
    """The references in a word, in order."""
    at = word.find("@")
    while at >= 0:
        if word.startswith("@@", at):
            at = word.find("@", at + 2)
            continue
        short = next((end for end in range(at + 1, len(word)) if word[end] in SEPARATORS), len(word))
        end = next((end for end in (len(word), short) if is_file(_plain(word[at + 1 : end]))), None)
        if short > at + 1:
            last = end or short
            yield Reference(_plain(word[at + 1 : last]), at, last, end is not None)
        at = word.find("@", max(end or short, at + 1))


def expand(word: str, paths: Callable[[str], Sequence[str] | None]) -> list[str]:
    """Replace each reference by the path of its file: one word for each file that a pattern matches.

    `paths`: the paths of a name, empty for a pattern without files, None if it is not a file. Raises
    LookupError with the name.
    """
    parts: list[Sequence[str]] = []
    at = 0
    for found in references(word, lambda name: bool(paths(name))):
        matching = paths(found.name)
        if matching is None:
            raise LookupError(found.name)
        parts += [[_plain(word[at : found.start])], matching]
        at = found.end
    parts.append([_plain(word[at:])])
    return ["".join(each) for each in product(*parts)]


def escape(value: str) -> str:
    """A value whose @ are plain."""
    return value.replace("@", "@@")


def unknown_names(arguments: str | Sequence[str], files: Iterable[str]) -> Iterator[str]:
    """The names that arguments refer to and that cannot be any of the files; both may be templates."""
    is_file = _is_any_of(files)
    words = _words(arguments) if isinstance(arguments, str) else map(_with_values, arguments)
    for found in chain.from_iterable(references(word, is_file) for word in words):
        if not found.known:
            yield found.name.replace(_VALUE, "{{ … }}")


def escape_unknown(text: str, files: Iterable[str], *, split: bool) -> str:
    """Escape each @ that does not refer to a file, in arguments saved before references in words were
    checked.

    `split`: the text is split into words; otherwise it is one word.
    """
    if "@" not in text:
        return text
    is_file = _is_any_of(files)
    words = _words(text) if split else [_with_values(text)]
    before, unknown = 0, set()
    for word in words:
        found = references(word, is_file)
        unknown |= {before + word.count("@", 0, each.start) for each in found if not each.known}
        before += word.count("@")
    number = count()
    pieces = split_placeholders(text)
    for at in range(0, len(pieces), 2):
        letters = ("@@" if each == "@" and next(number) in unknown else each for each in pieces[at])
        pieces[at] = "".join(letters)
    return "".join(pieces)


def file_names(step: Mapping[str, Any], kinds: Iterable[str]) -> list[str]:
    """The names of the files of a step in canonical spelling, valid or not."""
    listed = (step.get(kind) for kind in kinds)
    files = chain.from_iterable(each for each in listed if isinstance(each, list))
    named = (each.get("name") for each in files if isinstance(each, dict))
    return [name for name in named if isinstance(name, str)]


def _words(text: str) -> list[str]:
    try:
        return shlex.split(_with_values(text))
    except ValueError:  # the worker reports it
        return []


def _with_values(text: str) -> str:
    pieces = split_placeholders(text)
    return "".join(_VALUE if at % 2 else piece for at, piece in enumerate(pieces))


def _is_any_of(files: Iterable[str]) -> Callable[[str], bool]:
    named = {_pattern(_with_values(name)) for name in files}
    patterns = [name for name in named if has_wildcard(name)]

    def is_file(name: str) -> bool:
        name = _pattern(name)
        return name in named or any(
            _overlap(name, each) for each in (named if has_wildcard(name) else patterns)
        )

    return is_file


def _pattern(name: str) -> str:
    return name.replace(_VALUE, "*")


def _overlap(one: str, other: str) -> bool:
    """Whether two names may be the same file; of two patterns, their literal ends are compared."""
    if not (has_wildcard(one) and has_wildcard(other)):
        return fits(one, other) or fits(other, one)
    return _compatible(_literal_start(one), _literal_start(other)) and _compatible(
        _literal_start(one[::-1]), _literal_start(other[::-1])
    )


def _compatible(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)


def _literal_start(text: str) -> str:
    return text[: next(at for at, sign in enumerate(text) if sign in _WILDCARDS + "]")]


def _plain(text: str) -> str:
    return text.replace("@@", "@")
