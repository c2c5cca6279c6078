"""Read documents in JSON or YAML as plain JSON values; errors name the line."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from shardmill.client.errors import Invalid
from shardmill.model.base import Model

MAX_VALUES = 1_000_000
STANDARD_INPUT = "-"
_MERGE = "tag:yaml.org,2002:merge"
_STRING = "tag:yaml.org,2002:str"
_BOOLEAN = "tag:yaml.org,2002:bool"
# 2020-01-21 and 12:30 are strings: JSON has no dates, and YAML 1.1 reads 12:30 as the number 750.
_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


class DocumentError(Invalid):
    """A file is not a valid document."""

    code = "bad-document"


def document_of(given: Mapping[str, Any] | Model | str | Path) -> Any:
    """The JSON values of a document, a model, or a file with a document."""
    if isinstance(given, (str, Path)):
        return load_document(given)
    if isinstance(given, Model):
        return given.model_dump(
            mode="json", exclude_unset=True, exclude_none=True, exclude_computed_fields=True
        )
    return given


def load_document(path: str | Path) -> Any:
    """The document in a file, or on standard input if the path is `-`."""
    name = "standard input" if str(path) == STANDARD_INPUT else str(path)
    text = _text(path, name)
    try:
        if Path(path).suffix.lower() == ".json" or (text.lstrip().startswith("{") and _is_json(text)):
            return _json(text, name)
        return _yaml(text, name)
    except RecursionError:
        raise DocumentError(f"{name} is nested too deeply") from None


def _text(path: str | Path, name: str) -> str:
    try:
        data = sys.stdin.buffer.read() if str(path) == STANDARD_INPUT else Path(path).read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DocumentError(f"cannot read {name}: {reason}") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DocumentError(f"{name}, line {line}: not UTF-8 text") from None


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _json(text: str, name: str) -> Any:
    twice: list[str] = []

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        document = dict(found)
        if len(document) < len(found):
            seen: set[str] = set()
            twice.extend(key for key, _ in found if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        return document

    def constant(word: str) -> Any:
        raise DocumentError(f"{name}: {word} is not a JSON value")

    try:
        document = json.loads(text, object_pairs_hook=pairs, parse_constant=constant)
    except json.JSONDecodeError as error:
        raise DocumentError(f"{name}, line {error.lineno}: not valid JSON: {error.msg}") from None
    if twice:
        _yaml(text.replace("\t", " "), name)  # the YAML parser, which reads JSON as well, reports the line
        raise DocumentError(f"{name}: the key {twice[0]!r} is duplicated")
    return document


def _yaml(text: str, name: str) -> Any:
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            raise DocumentError(f"{name} is empty")
        _check(node, name)
        return loader.construct_document(node)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise DocumentError(f"{name}, line {line}: not valid YAML: {error.reason}") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{name}, line {mark.line + 1}" if mark else name
        raise DocumentError(f"{place}: not valid YAML: {_reason(error)}") from None
    except ValueError as error:
        raise DocumentError(f"{name}: {error}") from None


def _reason(error: yaml.MarkedYAMLError) -> str:
    if error.context == "expected a single document in the stream":
        return "the file has several documents; only one is allowed"
    return " ".join(part for part in (error.problem, error.context) if part)


class _Loader(yaml.SafeLoader):
    """SafeLoader without values that JSON does not have."""


def _construct_text(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> str:
    return str(loader.construct_scalar(node))


def _construct_number(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> Any:
    text = str(loader.construct_scalar(node))
    if ":" in text:
        return text
    return loader.construct_yaml_int(node) if node.tag == _NUMBERS[0] else loader.construct_yaml_float(node)


_Loader.add_constructor(_TIMESTAMP, _construct_text)
for _tag in _NUMBERS:
    _Loader.add_constructor(_tag, _construct_number)


def _check(root: yaml.Node, name: str) -> None:
    """Reject duplicate and non-string keys, recursive anchors, and anchors that expand to too many values."""
    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()

    def size(node: yaml.Node) -> int:
        if id(node) in sizes:
            return sizes[id(node)]
        line = f"{name}, line {node.start_mark.line + 1}"
        if id(node) in open_nodes:
            raise DocumentError(f"{line}: this value contains itself")
        open_nodes.add(id(node))
        if isinstance(node, yaml.MappingNode):
            _check_keys(node, name)
            found = 1 + sum(size(value) for _, value in node.value)
        else:
            found = 1 + sum(size(each) for each in node.value) if isinstance(node, yaml.SequenceNode) else 1
        if found > MAX_VALUES:
            raise DocumentError(f"{line}: the document has more than {MAX_VALUES:,} values")
        open_nodes.discard(id(node))
        sizes[id(node)] = found
        return found

    size(root)


def _check_keys(node: yaml.MappingNode, name: str) -> None:
    lines: dict[str, int] = {}
    for key, _ in node.value:
        line = key.start_mark.line + 1
        if key.tag == _MERGE:
            continue
        if key.tag == _BOOLEAN and key.value.lower() not in ("true", "false"):
            key.tag = _STRING  # YAML 1.1 reads the key `on` as true
        if key.tag != _STRING:
            raise DocumentError(
                f"{name}, line {line}: the key {_shown(key)} is not a string; put it in quotes"
            )
        if key.value in lines:
            raise DocumentError(
                f"{name}, line {line}: the key {key.value!r} is duplicated, first in line {lines[key.value]}"
            )
        lines[key.value] = line


def _shown(key: yaml.Node) -> str:
    return str(key.value) if isinstance(key, yaml.ScalarNode) else "here"
