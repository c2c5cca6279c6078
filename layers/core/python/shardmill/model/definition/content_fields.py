"""The fields of a step's content when it is an object, for each step type.

A definition is validated before its templates are rendered: with `context=True`, a value that contains `{{`
is accepted as it is.
"""

from __future__ import annotations

import re
import shlex
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import Field, PlainValidator, ValidationInfo
from pydantic_core import PydanticCustomError

from shardmill.model.base import Model
from shardmill.model.templates.render import as_text

_IMAGE = re.compile(r"[^\s-]\S*\Z")
_LAMBDA = re.compile(r"[a-zA-Z0-9_:.$/-]{1,256}\Z")
_METHOD = re.compile(r"[A-Za-z]{1,20}\Z")
_STATUS = re.compile(r"[1-5](xx|\d\d)\Z", re.ASCII)
_HEADER = re.compile(r"[\w!#$%&'*+.^`|~-]+\Z", re.ASCII)
_OWN_HEADERS = {"host", "content-length", "transfer-encoding", "connection"}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def image_fault(image: Any) -> str | None:
    """The fault of a docker image's name; None if it is valid or a template."""
    if not isinstance(image, str) or "{{" in image or _IMAGE.match(image):
        return None
    return f"must be the name of a docker image, not {image[:200]!r}"


def _filled(info: ValidationInfo, text: str) -> bool:
    return not (info.context and "{{" in text)


def _one_text(value: Any, _: ValidationInfo) -> str:
    if isinstance(value, str) and value.strip():
        return value
    raise PydanticCustomError("bad-type", "must be a non-empty string")


def _words(value: Any, _: ValidationInfo) -> list[str]:
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return value
    if not isinstance(value, str):
        raise PydanticCustomError("bad-type", "must be a string or a list of strings")
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
    raise PydanticCustomError("bad-type", "must be a string, a number, true or false")


def _image(value: Any, info: ValidationInfo) -> str:
    text = _one_text(value, info)
    if _filled(info, text) and not _IMAGE.match(text):
        raise PydanticCustomError(
            "bad-value", "must be the name of a docker image, not {given}", {"given": repr(text[:200])}
        )
    return text


def _method(value: Any, info: ValidationInfo) -> str:
    if isinstance(value, str) and (_METHOD.match(value) or not _filled(info, value)):
        return value.upper()
    raise PydanticCustomError("bad-value", "must be an HTTP method such as GET or POST")


def _url(value: Any, info: ValidationInfo) -> str:
    text = _one_text(value, info).strip()
    if _filled(info, text) and (wrong := _url_fault(text)):
        raise PydanticCustomError("bad-value", "{wrong}", {"wrong": wrong})
    return text


def _url_fault(text: str) -> str | None:
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018  raises ValueError if it is not a number
    except ValueError as error:
        return f"must be a URL: {error}"
    if parts.scheme not in ("http", "https") or not parts.hostname or _CONTROL.search(text):
        return "must be a URL that begins with http:// or https:// and names a host"
    return "must not contain a user or password: use headers instead" if "@" in parts.netloc else None


def _header(name: Any, info: ValidationInfo) -> str:
    if not isinstance(name, str) or not (_HEADER.match(name) or not _filled(info, name)):
        raise PydanticCustomError("bad-name", "must be a valid header name")
    if name.lower() in _OWN_HEADERS:
        raise PydanticCustomError("bad-name", "is set by the worker and cannot be given")
    return name


def _header_value(value: Any, _: ValidationInfo) -> str:
    if not isinstance(value, str):
        raise PydanticCustomError("bad-type", "must be a string")
    if _CONTROL.search(value.replace("\t", " ")):
        raise PydanticCustomError("bad-value", "must be a single line")
    return value


def _statuses(value: Any, info: ValidationInfo) -> list[str]:
    listed = [str(each) for each in (value if isinstance(value, list) else [value])]
    if listed and all(_STATUS.match(each) or not _filled(info, each) for each in listed):
        return listed
    raise PydanticCustomError("bad-value", "must be an HTTP status such as 201 or 2xx, or a list of them")


def _lambda_name(value: Any, info: ValidationInfo) -> str:
    text = _one_text(value, info).strip()
    if _filled(info, text) and not _LAMBDA.match(text):
        raise PydanticCustomError("bad-value", "must be the name or ARN of a Lambda function")
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
    """A query, or a file that contains it."""

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
