"""Cache what moto computes again for each cloud or call."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from unittest.mock import patch

from antlr4 import RuleContext
from moto.core import models, responses
from moto.core.serialize import ResponseSerializer
from moto.sqs import models as queues
from moto.stepfunctions.parser.asl.parse.asl_parser import AmazonStateLanguageParser
from moto.stepfunctions.parser.asl.parse.preprocessor import Preprocessor
from moto.stepfunctions.parser.models import StepFunctionsParserBackend

Method = Callable[..., Any]


@contextmanager
def hasty_moto() -> Iterator[None]:
    """To be entered before the mock."""
    with (
        calls_of_boto_only(),
        actions_listed_once(),
        attribute_values_as_they_are(),
        definitions_parsed_once(),
        queues_that_know_the_time(),
    ):
        yield


@contextmanager
def calls_of_boto_only() -> Iterator[None]:
    """Each mock adds 1,300 patterns for the `requests` library, which nothing here uses."""
    with patch.object(models, "RESPONSES_METHODS", []):
        yield


@contextmanager
def actions_listed_once() -> Iterator[None]:
    """Each call lists all methods of its service."""
    with patch.object(responses, "method_names_from_class", cache(responses.method_names_from_class)):
        yield


@contextmanager
def attribute_values_as_they_are() -> Iterator[None]:
    """Each value of each item is looked for under dozens of names; DynamoDB's have but their own."""
    original: Method = ResponseSerializer._serialize_type_structure

    def serialize(self: ResponseSerializer, serialized: Any, value: Any, shape: Any, key: str) -> None:
        if shape.name != "AttributeValue" or type(value) is not dict:
            original(self, serialized, value, shape, key)
            return
        wrapper: dict[str, Any] = {}
        for name, member in value.items():
            self._serialize(wrapper, member, shape.members[name], name)
        self._default_serialize(serialized, wrapper, shape, key)

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
    """Each machine and each execution parses its definition anew, which takes longer than most executions."""

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


@contextmanager
def queues_that_know_the_time() -> Iterator[None]:
    """Each message of a queue makes three datetimes to learn what time it is, at each look at the queue."""
    with (
        patch.object(queues, "unix_time", time.time),
        patch.object(queues, "unix_time_millis", lambda: time.time() * 1000),
    ):
        yield
