"""Rendering of templates: strings with `{{ … }}` placeholders, each of which holds an expression.

A name is one of `KNOWN`, `params.NAME`, `steps.NAME.output`, `steps.NAME.state`, `.counts` or `item`.
Parameters, outputs and items are JSON values, whose parts are accessed by `.key`, `["key"]` and `[0]`;
whether a part exists is known only when it is rendered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any, Protocol

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

COUNTED = ("SUCCESS", "FAILED", "KILLED", "WAITING")
"""The states in `steps.NAME.counts`: the possible task states of a step that has ended or was skipped."""

# Literal text, the expression of the placeholder that follows it, and the fault of that placeholder.
_Piece = tuple[str, Expression | None, str]

_PLACEHOLDER = re.compile(
    r"""\{\{((?:[^'"}]++|\}(?!\})|'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+")*+)(\}\}|)""", re.DOTALL
)


def names(text: str) -> list[str]:
    """The names in a template in order, with repetitions, and without accesses to parts of their values."""
    return [
        _name(path) for _, placeholder, _ in _pieces(text) if placeholder for path, _ in placeholder.paths()
    ]


def check(
    text: str, known_params: Container[str], *, steps: Container[str] = (), item: bool = False
) -> list[str]:
    """All faults of a template in which the outputs of `steps`, and perhaps `item`, are available."""
    found: list[str] = []
    for _, placeholder, problem in _pieces(text):
        found.append(problem)
        for path, optional in placeholder.paths() if placeholder else ():
            found.append(_problem(path, optional, known_params, steps, item))
    return [problem for problem in dict.fromkeys(found) if problem]


def split_placeholders(text: str) -> list[str]:
    """A template in parts: literal text at even positions, `{{ … }}` as written at odd ones."""
    parts, at = [], 0
    for placeholder in _PLACEHOLDER.finditer(text):
        parts += [text[at : placeholder.start()], placeholder[0]]
        at = placeholder.end()
    return [*parts, text[at:]]


class Language(Protocol):
    """Quotes values for their position in the text that was fed."""

    def feed(self, text: str) -> None: ...

    def quoted(self, value: str) -> str: ...


def render(
    text: str,
    context: Mapping[str, Any],
    quote: bool,
    escape: Callable[[str], str] | None = None,
    language: Callable[[], Language] = ShellText,
) -> str:
    """Render a template; with `quote`, each value is quoted so that it stays one word of shell text.

    `escape`: applied to each value before it is quoted. `language`: of the text, if it is not shell text.
    """
    if "{" not in text:
        return text
    position = language()
    done: list[str] = []
    for literal, placeholder, problem in _pieces(text):
        done.append(literal)
        if problem:
            raise TemplateError(problem)
        if placeholder is None:
            break
        value = as_text(placeholder.value(context))
        value = escape(value) if escape else value
        if quote:
            position.feed(literal)
            try:
                value = position.quoted(value)
            except ValueError as error:
                raise TemplateError(f"{{{{ {placeholder} }}}}: {error}") from None
        done.append(value)
    return "".join(done)


def render_value(value: Any, context: Mapping[str, Any], quote: bool) -> Any:
    """Render every string inside a value, except the keys of objects."""
    if isinstance(value, str):
        return render(value, context, quote)
    if isinstance(value, dict):
        return {key: render_value(each, context, quote) for key, each in value.items()}
    if isinstance(value, list):
        return [render_value(each, context, quote) for each in value]
    return value


def is_single_placeholder(text: str) -> bool:
    """Whether a template is a single `{{ … }}`, valid or not, with nothing but whitespace around it."""
    return _is_single_placeholder(list(_pieces(text)))


def evaluate(text: str, context: Mapping[str, Any]) -> Any:
    """The JSON value of a template that is a single placeholder; it may be part of the context."""
    pieces = list(_pieces(text))
    _, placeholder, problem = pieces[0]
    if problem:
        raise TemplateError(problem)
    if placeholder is None or not _is_single_placeholder(pieces):
        raise TemplateError(
            "must be a single {{ … }} expression without other text, such as {{ params.files }}"
        )
    return placeholder.value(context)


def truth(text: str, context: Mapping[str, Any]) -> bool:
    """Whether the value of a template that is a single placeholder is true; see `is_true`."""
    return is_true(evaluate(text, context))


def as_text(value: Any) -> str:
    """A value as text or environment variable: strings as they are, other values as JSON."""
    return value if isinstance(value, str) else compact(value)


def _pieces(text: str) -> Iterator[_Piece]:
    """The pieces of a template; the last one has no placeholder, or one that is not closed."""
    at = 0
    for placeholder in _PLACEHOLDER.finditer(text):
        literal, at = text[at : placeholder.start()], placeholder.end()
        if not placeholder[2]:
            yield literal, None, _unclosed(text[at : at + 1])
            return
        yield literal, *_read(placeholder[1].strip())
    yield text[at:], None, ""


def _is_single_placeholder(pieces: list[_Piece]) -> bool:
    return len(pieces) == 2 and not pieces[1][2] and not (pieces[0][0] + pieces[1][0]).strip()


def _read(written: str) -> tuple[Expression | None, str]:
    if not written:
        return None, "{{ }} is empty; use a parameter for literal braces"
    try:
        return parse(written), ""
    except TemplateError as error:
        return None, (
            f"{{{{ {written[:64]} }}}} is neither a name such as params.date or shard.index "
            f"nor a valid expression: {error}"
        )


def _unclosed(quote: str) -> str:
    if quote:
        return f"{{{{ is not closed by }}}}: the quote {quote} inside it is not closed"
    return "{{ is not closed by }}; use a parameter for literal braces"


def _name(path: Path) -> str:
    kept = {"params": 1, "steps": 2, "item": 0}.get(path.root, len(path.accesses))
    return str(Path(path.root, path.accesses[:kept]))


def _problem(
    path: Path, optional: bool, known_params: Container[str], steps: Container[str], item: bool
) -> str:
    match path.root, *path.accesses:
        case "item", *_:
            return "" if item else "item is only available in a step with items"
        case "params", str(name), *_:
            if optional or any(each in known_params for each in path.heads()):
                return ""
            return f"unknown parameter {name[:64]!r}: define it in params"
        case ("steps", str(name), "output" | "state" | "counts" as value, *parts):
            if name not in steps:
                return f"step {name[:64]!r} is not upstream of this one: add it to dependentSteps"
            return _part_problem(value, parts)
        case _:
            if (name := str(path)) in KNOWN:
                return ""
            others = ", ".join(sorted(KNOWN))
            of_steps = "steps.NAME.output, steps.NAME.state, steps.NAME.counts"
            return f"unknown name {name[:64]!r}: use params.NAME, {of_steps}, item, {others}"


def _part_problem(value: str, parts: Sequence[object]) -> str:
    """The fault of an access to a part of a step's state or counts, which are known in advance."""
    if value == "state" and parts:
        return "the state of a step is a text such as SUCCESS and has no parts"
    if value == "counts" and (len(parts) > 1 or (parts and parts[0] not in COUNTED)):
        return f"counts has the numbers of tasks by state: {', '.join(COUNTED)}"
    return ""
