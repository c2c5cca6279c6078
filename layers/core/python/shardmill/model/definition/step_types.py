"""The content of a step, by its type: what it may say, and what it means.

Read twice: when a definition is saved, its `{{ }}` not yet filled in (`template`), and by the worker.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

from pydantic import Field, PlainValidator, ValidationError, ValidationInfo
from pydantic_core import PydanticCustomError

from shardmill.model.base import Model
from shardmill.model.fault import Path, did_you_mean, in_our_words, pointer
from shardmill.model.templates.render import as_text, render_value

WORD_TYPES = frozenset({"java", "mapreduce", "docker"})
"""The types whose text is split into words: a value put into it must be quoted, so that it stays one word."""

Found = tuple[Path, str, str]
_M = TypeVar("_M", bound=Model)

_FUNCTION = re.compile(r"[\w.]+:[\w.]+\Z")
_IMAGE = re.compile(r"[^\s-]\S*\Z")
_LAMBDA = re.compile(r"[a-zA-Z0-9_:.$/-]{1,256}\Z")
_METHOD = re.compile(r"[A-Za-z]{1,20}\Z")
_STATUS = re.compile(r"[1-5](xx|\d\d)\Z", re.ASCII)
_HEADER = re.compile(r"[\w!#$%&'*+.^`|~-]+\Z", re.ASCII)
_OWN_HEADERS = {"host", "content-length", "transfer-encoding", "connection"}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class ContentError(ValueError):
    """A content does not say properly what to run; `found` has each fault with its path in the content."""

    def __init__(self, *found: Found) -> None:
        super().__init__(
            "; ".join(f"at {pointer(path)}: {said}" if path else said for path, _, said in found)
        )
        self.found = found


def content_faults(kind: str, content: Any) -> Sequence[Found]:
    """What is wrong with the content of a step, before its templates are filled in."""
    reader = _READERS.get(kind)
    try:
        if reader:
            reader(content, True)
    except ContentError as error:
        return error.found
    return ()


def render_content(kind: str, content: Any, context: Mapping[str, Any]) -> Any:
    """Fill in the templates of a content; where its text is split into words, each value stays one word."""
    if kind == "docker" and isinstance(content, dict) and isinstance(content.get("command"), str):
        return {name: render_value(each, context, name == "command") for name, each in content.items()}
    return render_value(
        content, context, kind == "shell" or (isinstance(content, str) and kind in WORD_TYPES)
    )


def image_fault(image: Any) -> str | None:
    """What is wrong with the name of a docker image, unless it is yet to be filled in."""
    if not isinstance(image, str) or "{{" in image or _IMAGE.match(image):
        return None
    return f"must be the name of an image, not {image[:200]!r}"


def _filled(info: ValidationInfo, text: str) -> bool:
    return not (info.context and "{{" in text)


def _one_text(value: Any, _: ValidationInfo) -> str:
    if isinstance(value, str) and value.strip():
        return value
    raise PydanticCustomError("bad-type", "must be text, and not empty")


def _words(value: Any, _: ValidationInfo) -> list[str]:
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return value
    if not isinstance(value, str):
        raise PydanticCustomError("bad-type", "must be text or a list of texts")
    try:
        return shlex.split(value)
    except ValueError as error:
        raise PydanticCustomError(
            "bad-value", "cannot be split into words: {why}", {"why": str(error)}
        ) from None


def _paths(value: Any, _: ValidationInfo) -> list[str]:
    paths = [value] if isinstance(value, str) else value
    if isinstance(paths, list) and all(isinstance(each, str) and each for each in paths):
        return paths
    raise PydanticCustomError("bad-type", "must be a path or a list of paths")


def _setting(value: Any, _: ValidationInfo) -> str:
    if isinstance(value, (str, int, float)):
        return as_text(value)
    raise PydanticCustomError("bad-type", "must be text, a number, true or false")


def _image(value: Any, info: ValidationInfo) -> str:
    text = _one_text(value, info)
    if _filled(info, text) and not _IMAGE.match(text):
        raise PydanticCustomError(
            "bad-value", "must be the name of an image, not {given}", {"given": repr(text[:200])}
        )
    return text


def _method(value: Any, info: ValidationInfo) -> str:
    if isinstance(value, str) and (_METHOD.match(value) or not _filled(info, value)):
        return value.upper()
    raise PydanticCustomError("bad-value", "must be a method such as GET or POST")


def _url(value: Any, info: ValidationInfo) -> str:
    text = _one_text(value, info).strip()
    if _filled(info, text) and (wrong := _url_fault(text)):
        raise PydanticCustomError("bad-value", "{wrong}", {"wrong": wrong})
    return text


def _url_fault(text: str) -> str | None:
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018  raises if it is no number
    except ValueError as error:
        return f"must be an address: {error}"
    if parts.scheme not in ("http", "https") or not parts.hostname or _CONTROL.search(text):
        return "must be an address that begins with http:// or https:// and names a host"
    return "must not contain a user or password: use headers" if "@" in parts.netloc else None


def _header(name: Any, info: ValidationInfo) -> str:
    if not isinstance(name, str) or not (_HEADER.match(name) or not _filled(info, name)):
        raise PydanticCustomError("bad-name", "must be the name of a header")
    if name.lower() in _OWN_HEADERS:
        raise PydanticCustomError("bad-name", "is set by the worker")
    return name


def _header_value(value: Any, _: ValidationInfo) -> str:
    if not isinstance(value, str):
        raise PydanticCustomError("bad-type", "must be text")
    if _CONTROL.search(value.replace("\t", " ")):
        raise PydanticCustomError("bad-value", "must be one line")
    return value


def _statuses(value: Any, info: ValidationInfo) -> list[str]:
    listed = [str(each) for each in (value if isinstance(value, list) else [value])]
    if listed and all(_STATUS.match(each) or not _filled(info, each) for each in listed):
        return listed
    raise PydanticCustomError("bad-value", "must be a status such as 201 or 2xx, or a list of them")


def _lambda_name(value: Any, info: ValidationInfo) -> str:
    text = _one_text(value, info).strip()
    if _filled(info, text) and not _LAMBDA.match(text):
        raise PydanticCustomError("bad-value", "must be the name or ARN of a function")
    return text


OneText = Annotated[str, PlainValidator(_one_text, json_schema_input_type=str)]
Words = Annotated[list[str], PlainValidator(_words, json_schema_input_type=str | list[str])]
Header = Annotated[str, PlainValidator(_header, json_schema_input_type=str)]
HeaderValue = Annotated[str, PlainValidator(_header_value, json_schema_input_type=str)]
Setting = Annotated[str, PlainValidator(_setting, json_schema_input_type=str)]


class JavaContent(Model):
    jar: OneText | None = None
    main_class: OneText | None = None
    classpath: Annotated[list[str], PlainValidator(_paths)] = Field(default_factory=list)
    args: list[str] = Field(default_factory=list)
    jvm_args: list[str] = Field(default_factory=list)


class MapReduceContent(Model):
    jar: OneText
    main_class: OneText | None = None
    args: list[str] = Field(default_factory=list)


class HiveContent(Model):
    """A query, or the file that has it."""

    query: OneText | None = None
    file: OneText | None = None
    hiveconf: dict[str, Setting] = Field(default_factory=dict)


class DockerContent(Model):
    image: Annotated[str, PlainValidator(_image)]
    command: Words = Field(default_factory=list)
    args: list[str] = Field(default_factory=list)


class HttpContent(Model):
    method: Annotated[str, PlainValidator(_method)] = "GET"
    url: Annotated[str, PlainValidator(_url)]
    headers: dict[Header, HeaderValue] = Field(default_factory=dict)
    body: Any = None
    expected_status: Annotated[list[str], PlainValidator(_statuses)] = Field(default_factory=lambda: ["2xx"])


class LambdaContent(Model):
    function: Annotated[str, PlainValidator(_lambda_name)]
    payload: Any = None


def shell(content: Any, _template: bool = False) -> str:
    if not isinstance(content, str):
        raise ContentError(((), "bad-type", "must be text"))
    return content


def python(content: Any, template: bool = False) -> str:
    text = shell(content).strip()
    if not _FUNCTION.match(text) and not (template and "{{" in text):
        raise ContentError(((), "bad-value", f"must be module:function, not {text[:200]!r}"))
    return text


def java(content: Any, template: bool = False) -> list[str]:
    """The words after `java`: a text that begins with a jar is run as one, all else is as it stands."""
    if isinstance(content, str):
        words = _split(content, "a jar or a class, and its arguments")
        return ["-jar", *words] if words[0].endswith(".jar") else words
    _one_of(content, "jar", "mainClass")
    if isinstance(content, dict) and "jar" in content and "classpath" in content:
        raise ContentError((("classpath",), "both-spellings", "is for mainClass; java ignores it for a jar"))
    found = _object(JavaContent, content, template)
    path = ["-cp", ":".join(found.classpath)] if found.classpath else []
    start = ["-jar", found.jar] if found.jar else [found.main_class or ""]
    return [*found.jvm_args, *path, *start, *found.args]


def mapreduce(content: Any, template: bool = False) -> list[str]:
    """The words after `hadoop jar`."""
    if isinstance(content, str):
        return _split(content, "a jar and its arguments")
    found = _object(MapReduceContent, content, template)
    return [found.jar, *([found.main_class] if found.main_class else []), *found.args]


def hive(content: Any, template: bool = False) -> HiveContent:
    if isinstance(content, str):
        return HiveContent(query=content)
    _one_of(content, "query", "file")
    found = _object(HiveContent, content, template)
    for name in found.hiveconf:
        if not name or "=" in name:
            raise ContentError((("hiveconf", name), "bad-name", "must be the name of a setting, without ="))
    return found


def docker(content: Any, template: bool = False) -> tuple[str, list[str]]:
    """An image, and the words of the command that runs in it."""
    if isinstance(content, str):
        image, *words = _split(content, "an image, and the command that runs in it")
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
        raise ContentError(((), "missing-field", f"needs {first} or {second}"))
    if len(given) > 1:
        raise ContentError(((second,), "both-spellings", f"{first} is given already; give one of them"))


def _object(model: type[_M], content: Any, template: bool) -> _M:
    if not isinstance(content, dict):
        raise ContentError(((), "bad-type", "must be text or an object"))
    try:
        return model.model_validate(content, strict=True, by_alias=True, by_name=False, context=template)
    except ValidationError as error:
        raise ContentError(*_found(error, model)) from None


def _short(model: type[_M], field: str, text: str, template: bool) -> _M:
    """An object whose one field is given as a mere text: what is wrong with it is wrong with the text."""
    try:
        return _object(model, {field: text}, template)
    except ContentError as error:
        raise ContentError(*(((), code, message) for _, code, message in error.found)) from None


def _found(error: ValidationError, model: type[Model]) -> list[Found]:
    found: list[Found] = []
    for each in error.errors(include_url=False, include_context=False, include_input=False):
        path = tuple(part for part in each["loc"] if part != "[key]")
        code, message = in_our_words(each["type"], each["msg"], path)
        if code == "unknown-field":
            known = [field.alias or name for name, field in model.model_fields.items()]
            message += did_you_mean(str(path[-1]), known)
        found.append((path, code, message))
    return found
