"""docs/scale.md names the partitions of all rows, the indexes and the queues."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from types import ModuleType

import pytest

from shardmill.store import group_keys, keys
from shardmill.store.due import run_keys
from shardmill.store.tasks import keys as task_keys
from support.paths import PROJECT

PAGE = (PROJECT / "docs" / "scale.md").read_text()
TEMPLATE = (PROJECT / "template.yaml").read_text()
ARGUMENTS = {"str": "x", "int": 1, "StepKey": ("x", 1, 1)}


def partitions_of(module: ModuleType) -> Iterator[str]:
    """The beginnings of the partition keys that a module makes."""
    for _, function in inspect.getmembers(module, inspect.isfunction):
        parameters = inspect.signature(function).parameters.values()
        if function.__annotations__.get("return") == "Key" and function.__name__ != "key_of":
            made = function(*(ARGUMENTS[each.annotation] for each in parameters))
            name, mark, _ = made["pk"].partition("#")
            yield f"pk={name}{mark}"


@pytest.mark.parametrize("module", [keys, group_keys, run_keys, task_keys], ids=lambda each: each.__name__)
def test_the_partitions_of_all_rows_are_named(module: ModuleType) -> None:
    found = set(partitions_of(module))
    assert found
    assert {each for each in found if f"`{each}`" not in PAGE} == set()


def test_all_queues_of_the_template_are_named() -> None:
    found = re.findall(r"QueueName: !Sub \$\{AWS::StackName\}-\$\{Api\}-(\S+)", TEMPLATE)
    assert {"fire", "lambda-normal"} <= set(found)
    assert {each for each in found if f"`{each}`" not in PAGE} == set()
