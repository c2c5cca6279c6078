"""Cache what moto computes again for each cloud or call."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import cache
from typing import Any
from unittest.mock import patch

import jsonpath_ng.ext
from antlr4 import RuleContext
from botocore.parsers import BaseJSONParser
from moto.core import models, responses
from moto.core.serialize import ResponseSerializer
from moto.dynamodb.comparisons import ConditionExpressionParser
from moto.dynamodb.parsing import validators
from moto.dynamodb.parsing.ast_nodes import Expression, Node, UpdateExpressionFunction
from moto.dynamodb.parsing.expressions import UpdateExpressionParser
from moto.dynamodb.parsing.validators import DepthFirstTraverser, UpdateExpressionValidator
from moto.sqs import models as queues
from moto.stepfunctions.parser.asl.component.common.path import result_path
from moto.stepfunctions.parser.asl.parse.asl_parser import AmazonStateLanguageParser
from moto.stepfunctions.parser.asl.parse.preprocessor import Preprocessor
from moto.stepfunctions.parser.asl.utils import json_path
from moto.stepfunctions.parser.models import StepFunctionsParserBackend

from support.moto.quick_calls import quick_calls

Method = Callable[..., Any]


@contextmanager
def faster_moto() -> Iterator[None]:
    """Apply all of them; enter this before the mock."""
    with (
        boto_calls_only(),
        action_names_cached(),
        attribute_values_serialized_directly(),
        attribute_values_parsed_directly(),
        update_expressions_traversed_by_type(),
        update_expressions_parsed_once(),
        conditions_split_once(),
        definitions_parsed_once(),
        json_paths_parsed_once(),
        queues_without_datetimes(),
        quick_calls(),
    ):
        yield


@contextmanager
def boto_calls_only() -> Iterator[None]:
    """Each mock registers 1,300 patterns for the `requests` library, which nothing here uses."""
    with patch.object(models, "RESPONSES_METHODS", []):
        yield


_method_names: Method = cache(responses.method_names_from_class)
_underscores: Method = cache(responses.camelcase_to_underscores)


@contextmanager
def action_names_cached() -> Iterator[None]:
    """moto lists all methods of a service, and converts the name of the action, for each call.

    It also converts the names of all attributes of a queue each time they are set or read."""
    with (
        patch.object(responses, "method_names_from_class", _method_names),
        patch.object(responses, "camelcase_to_underscores", _underscores),
        patch.object(queues, "camelcase_to_underscores", _underscores),
    ):
        yield


@cache
def _processed_class(traverser: type, node: type, classes: tuple[type, ...]) -> type | None:
    return next((each for each in classes if issubclass(node, each)), None)


_parsed_update: Method = cache(UpdateExpressionParser.make)


def _copied_node(node: Any, parent: Any = None) -> Any:
    """Copy a parsed update, which each validation of it changes."""
    copy = object.__new__(type(node))
    vars(copy).update(vars(node), parent=parent)
    if node.children:
        copy.children = [
            _copied_node(each, copy) if isinstance(each, Node) else each for each in node.children
        ]
    return copy


_is_node: Callable[[type], bool] = cache(lambda kind: issubclass(kind, Node))
_has_clauses: Callable[[type], bool] = cache(
    lambda kind: issubclass(kind, (Expression, UpdateExpressionFunction))
)


def _traverse(self: Any, node: Any, child_id: int = -1) -> Any:
    kind = type(node)
    if not _is_node(kind):
        return node
    parent = node.parent
    for index, child in enumerate(node.children or ()):
        self.pre_processing_of_child(node, index)
        self.traverse_node_recursively(child, index)
    processors = vars(self).get("processors")
    if processors is None:
        processors = self.processors = self._processing_map()
        self.processed = tuple(processors)
    found = _processed_class(type(self), kind, self.processed)
    if found is not None:
        node = processors[found](node)
        node.parent = parent
        if parent:
            parent.children[child_id] = node
    return node


def _find_clauses(self: Any, wanted: Any) -> list[Any]:
    found: list[Any] = []
    for child in self.children or ():
        kind = type(child)
        if kind in wanted:
            found.append(child)
        elif _has_clauses(kind):
            found.extend(child.find_clauses(wanted))
    return found


@contextmanager
def update_expressions_traversed_by_type() -> Iterator[None]:
    """moto checks each node of an update expression against all abstract classes, six times over."""
    with (
        patch.object(DepthFirstTraverser, "traverse_node_recursively", _traverse),
        patch.object(Node, "find_clauses", _find_clauses),
    ):
        yield


_lex: Method = ConditionExpressionParser._lex_condition_expression
_lexed: dict[str, tuple[Any, ...]] = {}


def _lex_once(self: ConditionExpressionParser) -> deque[Any]:
    text = self.condition_expression or ""
    if text not in _lexed:
        _lexed[text] = tuple(_lex(self))
    return deque(_lexed[text])


@contextmanager
def conditions_split_once() -> Iterator[None]:
    """moto splits a condition into words twice for each call, with six expressions that it compiles."""
    with patch.object(ConditionExpressionParser, "_lex_condition_expression", _lex_once):
        yield


_validate: Method = UpdateExpressionValidator.validate
_valid_names: set[tuple[Any, ...]] = set()


def _validate_names_once(self: UpdateExpressionValidator) -> Node:
    """The first three processors check the expression with its names only, and change nothing."""
    names = frozenset((self.expression_attribute_names or {}).items())
    checked = id(self.node_to_validate.original), names, *self.table.table_key_attrs  # type: ignore[attr-defined]
    if checked in _valid_names:
        self.processors = self.processors[3:]
    valid: Node = _validate(self)
    _valid_names.add(checked)
    return valid


@contextmanager
def update_expressions_parsed_once() -> Iterator[None]:
    """moto parses an update expression twice for each call, and copies it with all that it refers to."""

    def copied(value: Any) -> Any:
        if not isinstance(value, Expression):
            return deepcopy(value)
        copy = _copied_node(value)
        copy.original = value  # which stays in the cache
        return copy

    with (
        patch.object(UpdateExpressionParser, "make", _parsed_update),
        patch.object(validators, "deepcopy", copied),
        patch.object(UpdateExpressionValidator, "validate", _validate_names_once),
    ):
        yield


def _is_plain(value: Any) -> bool:
    """Whether an attribute's value is in JSON what it is in Python: bytes and their containers are not."""
    for name, member in value.items():
        if name == "M":
            return all(map(_is_plain, member.values()))
        if name == "L":
            return all(map(_is_plain, member))
        return name not in ("B", "BS")
    return False


@contextmanager
def attribute_values_parsed_directly() -> Iterator[None]:
    """botocore looks for each of ten types in each value of each item."""
    original: Method = BaseJSONParser._handle_structure

    def handle(self: BaseJSONParser, shape: Any, value: Any) -> Any:
        if shape.name == "AttributeValue" and type(value) is dict and len(value) == 1 and _is_plain(value):
            return value
        return original(self, shape, value)

    with patch.object(BaseJSONParser, "_handle_structure", handle):
        yield


@contextmanager
def attribute_values_serialized_directly() -> Iterator[None]:
    """moto looks for each value of each item under dozens of names; DynamoDB's have only their own."""
    original: Method = ResponseSerializer._serialize_type_structure

    def serialize(self: ResponseSerializer, serialized: Any, value: Any, shape: Any, key: str) -> None:
        if shape.name != "AttributeValue" or type(value) is not dict:
            original(self, serialized, value, shape, key)
            return
        if not _is_plain(value):
            wrapper: dict[str, Any] = {}
            for name, member in value.items():
                self._serialize(wrapper, member, shape.members[name], name)
            value = wrapper
        self._default_serialize(serialized, value, shape, key)

    with patch.object(ResponseSerializer, "_serialize_type_structure", serialize):
        yield


_parse: Method = AmazonStateLanguageParser.parse
_valid: Method = cache(StepFunctionsParserBackend._validate_definition)
_text: Method = RuleContext.getText


@cache
def _tree(definition: str) -> Any:
    return _parse(definition)[1]


@contextmanager
def definitions_parsed_once() -> Iterator[None]:
    """moto parses a definition for each machine and execution, which takes longer than most executions."""

    def parse(definition: str) -> tuple[Any, Any]:
        tree = _tree(definition)
        return Preprocessor().visit(tree), tree

    def text(self: Any) -> str:
        if "kept" not in vars(self):
            self.kept = _text(self)
        return str(self.kept)

    with (
        patch.object(AmazonStateLanguageParser, "parse", staticmethod(parse)),
        patch.object(StepFunctionsParserBackend, "_validate_definition", staticmethod(_valid)),
        patch.object(RuleContext, "getText", text),
    ):
        yield


_path: Method = cache(json_path.parse)
_result_path: Method = cache(result_path.parse)
_template_path: Method = cache(jsonpath_ng.ext.parse)


@contextmanager
def json_paths_parsed_once() -> Iterator[None]:
    """Each evaluation of a JSONPath builds a parser and parses the path."""
    with (
        patch.object(json_path, "parse", _path),
        patch.object(result_path, "parse", _result_path),
        patch.object(jsonpath_ng.ext, "parse", _template_path),
    ):
        yield


@contextmanager
def queues_without_datetimes() -> Iterator[None]:
    """moto makes three datetimes for each message of a queue to compare times, for each receive."""
    with (
        patch.object(queues, "unix_time", time.time),
        patch.object(queues, "unix_time_millis", lambda: time.time() * 1000),
    ):
        yield
