"""`{{ … }}` in a definition's texts: each hole holds an expression over named values, never code.

A name is one of `KNOWN`, `params.NAME`, `steps.NAME.output` or `item`; the last three are JSON values, which
`.key`, `["key"]` and `[0]` lead further into. Deep inside of one, nothing is known until it is filled in.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from typing import Any

from shardmill.model.templates.expression import Expression, Path, compact, is_true
from shardmill.model.templates.expression import TemplateError as TemplateError
from shardmill.model.templates.parser import parse
from shardmill.model.templates.shell import ShellText

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

# What is literal, then the expression of the hole that follows, then what is wrong with that hole.
_Piece = tuple[str, Expression | None, str]

_HOLE = re.compile(
    r"""\{\{((?:[^'"}]++|\}(?!\})|'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+")*+)(\}\}|)""", re.DOTALL
)


def names(text: str) -> list[str]:
    """The names in a text, in order, each as often as it is there; not what lies inside their values."""
    return [_name(path) for _, hole, _ in _pieces(text) if hole for path, _ in hole.paths()]


def check(
    text: str, known_params: Container[str], *, steps: Container[str] = (), item: bool = False
) -> list[str]:
    """Everything that is wrong with a text where the outputs of `steps` are known, and perhaps an `item`."""
    found: list[str] = []
    for _, hole, problem in _pieces(text):
        found.append(problem)
        for path, optional in hole.paths() if hole else ():
            found.append(_problem(path, optional, known_params, steps, item))
    return [problem for problem in dict.fromkeys(found) if problem]


def render(text: str, context: Mapping[str, Any], quote: bool) -> str:
    """Fill in the values; with `quote` each of them stays one word of shell text, whatever is in it."""
    if "{" not in text:
        return text
    shell = ShellText()
    done: list[str] = []
    for literal, hole, problem in _pieces(text):
        done.append(literal)
        if problem:
            raise TemplateError(problem)
        if hole is None:
            break
        value = as_text(hole.value(context))
        if quote:
            shell.feed(literal)
            try:
                value = shell.quoted(value)
            except ValueError as error:
                raise TemplateError(f"{{{{ {hole} }}}}: {error}") from None
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


def is_one_hole(text: str) -> bool:
    """Whether a text is one `{{ … }}` with nothing but blanks around it, whatever is wrong inside."""
    return _is_one_hole(list(_pieces(text)))


def evaluate(text: str, context: Mapping[str, Any]) -> Any:
    """The JSON value of a text that is one hole: a list stays a list, and may be that of the context."""
    pieces = list(_pieces(text))
    _, hole, problem = pieces[0]
    if problem:
        raise TemplateError(problem)
    if hole is None or not _is_one_hole(pieces):
        raise TemplateError("must be one {{ … }} with nothing around it, such as {{ params.files }}")
    return hole.value(context)


def truth(text: str, context: Mapping[str, Any]) -> bool:
    """Whether the value of a text that is one hole counts as true: see `is_true`."""
    return is_true(evaluate(text, context))


def as_text(value: Any) -> str:
    """A value as it stands in a text or an environment variable: text as it is, the rest as JSON."""
    return value if isinstance(value, str) else compact(value)


def _pieces(text: str) -> Iterator[_Piece]:
    """The text in pieces; the last one has no hole, or one that is never closed."""
    at = 0
    for hole in _HOLE.finditer(text):
        literal, at = text[at : hole.start()], hole.end()
        if not hole[2]:
            yield literal, None, _unclosed(text[at : at + 1])
            return
        yield literal, *_read(hole[1].strip())
    yield text[at:], None, ""


def _is_one_hole(pieces: list[_Piece]) -> bool:
    return len(pieces) == 2 and not pieces[1][2] and not (pieces[0][0] + pieces[1][0]).strip()


def _read(written: str) -> tuple[Expression | None, str]:
    if not written:
        return None, "{{ }} names nothing; literal braces can come from a parameter"
    try:
        return parse(written), ""
    except TemplateError as error:
        return None, (
            f"{{{{ {written[:64]} }}}} is not a name such as params.date or shard.index, "
            f"nor an expression: {error}"
        )


def _unclosed(quote: str) -> str:
    if quote:
        return f"{{{{ is never closed by }}}}: the quote {quote} inside of it is never closed"
    return "{{ is never closed by }}; literal braces can come from a parameter"


def _name(path: Path) -> str:
    kept = {"params": 1, "steps": 2, "item": 0}.get(path.root, len(path.accesses))
    return str(Path(path.root, path.accesses[:kept]))


def _problem(
    path: Path, optional: bool, known_params: Container[str], steps: Container[str], item: bool
) -> str:
    match path.root, *path.accesses:
        case "item", *_:
            return "" if item else "item is known in a step with items only"
        case "params", str(name), *_:
            if optional or any(each in known_params for each in path.heads()):
                return ""
            return f"unknown parameter {name[:64]!r}: give it a value in params"
        case "steps", str(name), "output", *_:
            if name in steps:
                return ""
            return f"step {name[:64]!r} is not upstream of this one: add it to dependentSteps"
        case _:
            if (name := str(path)) in KNOWN:
                return ""
            others = ", ".join(sorted(KNOWN))
            return f"unknown name {name[:64]!r}: there are params.NAME, steps.NAME.output, item, {others}"
