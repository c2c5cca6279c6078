"""The content of a step by its type: validation, rendering, and the command line that results.

A content is read twice: when its definition is saved, with templates that are not rendered yet (`template`),
and by the worker.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import ValidationError

from shardmill.model.base import Model
from shardmill.model.definition.content_fields import (
    DockerContent,
    HiveContent,
    HttpContent,
    JavaContent,
    LambdaContent,
    MapReduceContent,
)
from shardmill.model.fault import Path, code_and_message, did_you_mean, pointer
from shardmill.model.templates.render import Language, is_single_placeholder, render, render_value

WORD_TYPES = frozenset({"java", "mapreduce", "docker"})
"""The types whose text is split into words: rendered values are quoted so that each stays one word."""

Found = tuple[Path, str, str]
_M = TypeVar("_M", bound=Model)

_FUNCTION = re.compile(r"[\w.]+:[\w.]+\Z")


class ContentError(ValueError):
    """The content is not valid; `found` has the path in the content, the code and the message of each
    fault."""

    def __init__(self, *found: Found) -> None:
        super().__init__(
            "; ".join(f"at {pointer(path)}: {said}" if path else said for path, _, said in found)
        )
        self.found = found


def content_faults(kind: str, content: Any) -> Sequence[Found]:
    """The faults of a step's content before its templates are rendered."""
    reader = _READERS.get(kind)
    try:
        if reader:
            reader(content, True)
    except ContentError as error:
        return error.found
    return ()


def render_content(kind: str, content: Any, context: Mapping[str, Any]) -> Any:
    """Render the templates of a content; where its text is split into words, each value stays one word.

    A value cannot change a query, unless it is the whole query.
    """
    if kind == "hive":
        return _render_hive(content, context)
    if kind == "docker" and isinstance(content, dict) and isinstance(content.get("command"), str):
        return {name: render_value(each, context, name == "command") for name, each in content.items()}
    return render_value(
        content, context, kind == "shell" or (isinstance(content, str) and kind in WORD_TYPES)
    )


def _render_hive(content: Any, context: Mapping[str, Any]) -> Any:
    from shardmill.model.templates.hive import HiveSetting, HiveText  # few definitions need it

    if isinstance(content, str):
        whole = is_single_placeholder(content)
        return render(content, context, not whole, language=HiveText)
    if not isinstance(content, dict):
        return render_value(content, context, False)
    rendered: dict[str, Any] = {}
    for name, each in content.items():
        if name == "query":
            rendered[name] = _render_hive(each, context)
        elif name == "hiveconf" and isinstance(each, dict):
            rendered[name] = {
                key: _render_setting(value, context, HiveSetting) for key, value in each.items()
            }
        else:
            rendered[name] = render_value(each, context, False)
    return rendered


def _render_setting(value: Any, context: Mapping[str, Any], language: Callable[[], Language]) -> Any:
    return render(value, context, True, language=language) if isinstance(value, str) else value


def shell(content: Any, _template: bool = False) -> str:
    if not isinstance(content, str):
        raise ContentError(((), "bad-type", "must be a string"))
    return content


def python(content: Any, template: bool = False) -> str:
    text = shell(content).strip()
    if not _FUNCTION.match(text) and not (template and "{{" in text):
        raise ContentError(((), "bad-value", f"must be module:function, not {text[:200]!r}"))
    return text


def java(content: Any, template: bool = False) -> list[str]:
    """The arguments of `java`; a string that begins with a .jar file runs that file."""
    if isinstance(content, str):
        words = _split(content, "a jar or a class, followed by its arguments")
        return ["-jar", *words] if words[0].endswith(".jar") else words
    _one_of(content, "jar", "mainClass")
    if isinstance(content, dict) and "jar" in content and "classpath" in content:
        raise ContentError(
            (
                ("classpath",),
                "both-spellings",
                "is only for mainClass: java ignores the classpath when it runs a jar",
            )
        )
    found = _object(JavaContent, content, template)
    path = ["-cp", ":".join(found.classpath)] if found.classpath else []
    start = ["-jar", found.jar] if found.jar else [found.main_class or ""]
    return [*found.jvm_args, *path, *start, *found.args]


def mapreduce(content: Any, template: bool = False) -> list[str]:
    """The arguments of `hadoop jar`."""
    if isinstance(content, str):
        return _split(content, "a jar, followed by its arguments")
    found = _object(MapReduceContent, content, template)
    return [found.jar, *([found.main_class] if found.main_class else []), *found.args]


def hive(content: Any, template: bool = False) -> HiveContent:
    if isinstance(content, str):
        return HiveContent(query=content)
    _one_of(content, "query", "file")
    found = _object(HiveContent, content, template)
    for name in found.hiveconf:
        if not name or "=" in name:
            raise ContentError(
                (("hiveconf", name), "bad-name", "must be the name of a setting and must not contain =")
            )
    return found


def docker(content: Any, template: bool = False) -> tuple[str, list[str]]:
    """The image, and the arguments of the command that runs in it."""
    if isinstance(content, str):
        image, *words = _split(content, "an image and the command to run in it")
        return _short(DockerContent, "image", image, template).image, words
    found = _object(DockerContent, content, template)
    return found.image, [*found.command, *found.args]


def http(content: Any, template: bool = False) -> HttpContent:
    if isinstance(content, str):
        return _short(HttpContent, "url", content, template)
    return _object(HttpContent, content, template)


def lambda_(content: Any, template: bool = False) -> LambdaContent:
    if isinstance(content, str):
        return _short(LambdaContent, "function", content, template)
    return _object(LambdaContent, content, template)


_READERS: dict[str, Callable[[Any, bool], Any]] = {
    "shell": shell,
    "python": python,
    "java": java,
    "mapreduce": mapreduce,
    "hive": hive,
    "docker": docker,
    "http": http,
    "lambda": lambda_,
}


def _split(text: str, what: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ContentError(((), "bad-value", f"cannot be split into words: {error}")) from None
    if not words or not words[0]:
        raise ContentError(((), "bad-value", f"must name {what}"))
    return words


def _one_of(content: Any, first: str, second: str) -> None:
    given = [name for name in (first, second) if isinstance(content, dict) and content.get(name) is not None]
    if isinstance(content, dict) and not given:
        raise ContentError(((), "missing-field", f"requires {first} or {second}"))
    if len(given) > 1:
        raise ContentError(
            ((second,), "both-spellings", f"cannot be combined with {first}; give only one of them")
        )


def _object(model: type[_M], content: Any, template: bool) -> _M:
    if not isinstance(content, dict):
        raise ContentError(((), "bad-type", "must be a string or an object"))
    try:
        return model.model_validate(content, strict=True, by_alias=True, by_name=False, context=template)
    except ValidationError as error:
        raise ContentError(*_found(error, model)) from None


def _short(model: type[_M], field: str, text: str, template: bool) -> _M:
    """An object given by the string of one field: faults of the field are faults of the string."""
    try:
        return _object(model, {field: text}, template)
    except ContentError as error:
        raise ContentError(*(((), code, message) for _, code, message in error.found)) from None


def _found(error: ValidationError, model: type[Model]) -> list[Found]:
    found: list[Found] = []
    for each in error.errors(include_url=False, include_context=False, include_input=False):
        path = tuple(part for part in each["loc"] if part != "[key]")
        code, message = code_and_message(each["type"], each["msg"], path)
        if code == "unknown-field":
            known = [field.alias or name for name, field in model.model_fields.items()]
            message += did_you_mean(str(path[-1]), known)
        found.append((path, code, message))
    return found
