"""`{{ path }}` in a definition's texts: names of values, never code.

A path is one of `KNOWN`, or `params.NAME`. Where outputs of steps become values, `steps.NAME.output` joins
in `_problem` and `_value`, and nowhere else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator, Mapping
from typing import Any

from shardmill.model.shell import ShellText

KNOWN = frozenset(
    {
        "shard.index",
        "shard.total",
        "pack.start",
        "pack.end",
        "job.name",
        "job.trigger",
        "job.id",
        "job.dataTime",
        "step.name",
        "task.id",
    }
)

_HOLE = re.compile(r"\{\{(.*?)(\}\}|\Z)", re.DOTALL)
_PATH = re.compile(r"[a-zA-Z_][\w-]*(\.[\w-]+)+\Z", re.ASCII)
_PARAMS = "params."


class TemplateError(ValueError):
    """A template cannot be filled in."""


def names(text: str) -> list[str]:
    """The paths that a text names, in order, each as often as it is there."""
    return [path for _, path, problem in _pieces(text) if path and not problem]


def check(text: str, known_params: Container[str]) -> list[str]:
    """Everything that is wrong with a text."""
    found = (
        problem or _problem(path, known_params) for _, path, problem in _pieces(text) if path is not None
    )
    return list(dict.fromkeys(problem for problem in found if problem))


def render(text: str, context: Mapping[str, Any], quote: bool) -> str:
    """Fill in the values; with `quote` each of them stays one word of shell text, whatever is in it."""
    shell = ShellText()
    done: list[str] = []
    for literal, path, problem in _pieces(text):
        done.append(literal)
        if problem:
            raise TemplateError(problem)
        if path is None:
            break
        value = as_text(_value(path, context))
        if quote:
            shell.feed(literal)
            try:
                value = shell.quoted(value)
            except ValueError as error:
                raise TemplateError(f"{{{{ {path} }}}}: {error}") from None
        done.append(value)
    return "".join(done)


def render_value(value: Any, context: Mapping[str, Any], quote: bool) -> Any:
    """`render` on every text inside a value; the keys of objects stay as they are."""
    if isinstance(value, str):
        return render(value, context, quote)
    if isinstance(value, dict):
        return {key: render_value(each, context, quote) for key, each in value.items()}
    if isinstance(value, list):
        return [render_value(each, context, quote) for each in value]
    return value


def as_text(value: Any) -> str:
    """A value as it stands in a text or an environment variable: text as it is, the rest as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _pieces(text: str) -> Iterator[tuple[str, str | None, str]]:
    """The text in pieces: what is literal, then the path that follows, then what is wrong with that path."""
    at = 0
    for hole in _HOLE.finditer(text):
        path = hole[1].strip()
        yield text[at : hole.start()], path, _syntax(path, closed=bool(hole[2]))
        at = hole.end()
    yield text[at:], None, ""


def _syntax(path: str, *, closed: bool) -> str:
    if not closed:
        return "{{ is never closed by }}; literal braces can come from a parameter"
    if not path:
        return "{{ }} names nothing; literal braces can come from a parameter"
    if not _PATH.match(path):
        return f"{{{{ {path[:64]} }}}} is not a name such as params.date or shard.index"
    return ""


def _problem(path: str, known_params: Container[str]) -> str:
    if path.startswith(_PARAMS):
        name = path.removeprefix(_PARAMS)
        return "" if name in known_params else f"unknown parameter {name!r}: give it a value in params"
    if path in KNOWN:
        return ""
    return f"unknown name {path[:64]!r}: there are params.NAME, {', '.join(sorted(KNOWN))}"


def _value(path: str, context: Mapping[str, Any]) -> Any:
    root, _, name = path.partition(".")
    values = context.get(root)
    if not isinstance(values, Mapping) or name not in values:
        raise TemplateError(f"{{{{ {path} }}}} has no value here")
    return values[name]
