"""S3 keys: no other module builds one, and no two kinds of objects share a key."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import shardmill
from shardmill.engine.files import keys

SOURCE = Path(shardmill.__file__).parent
AREAS = (keys.FILES, keys.LOGS, keys.UPLOADS, keys.DEAD_LETTERS, keys.NODES)
HOME = SOURCE / "engine" / "files" / "keys.py"


def key_literals(path: Path) -> Iterator[str]:
    """The texts and f-strings of a module that begin with an area of the bucket."""
    areas = {"FILES", "LOGS", "UPLOADS", "DEAD_LETTERS", "NODES"}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node.value.startswith(tuple(f"{area}/" for area in AREAS)):
                yield f"{path.name}:{node.lineno} {node.value!r}"
        elif isinstance(node, ast.JoinedStr) and isinstance(first := node.values[0], ast.FormattedValue):
            if ast.unparse(first.value).removeprefix("keys.") in areas:
                yield f"{path.name}:{node.lineno} {ast.unparse(node)}"


@pytest.mark.parametrize("package", ["engine", "aws", "api", "model", "store", "worker", "transfer"])
def test_only_one_module_builds_s3_keys(package: str) -> None:
    paths = [path for path in (SOURCE / package).rglob("*.py") if path != HOME]
    assert [literal for path in paths for literal in key_literals(path)] == []


def test_the_search_finds_the_keys_in_their_own_module() -> None:
    assert len(list(key_literals(HOME))) > 10


def test_no_two_kinds_of_objects_share_a_key() -> None:
    attempt = ("id", 1, 2, 3, 4)
    found = [
        keys.output(*attempt, "name"),
        keys.log(*attempt, "stdout"),
        keys.output_attributes(*attempt, "name"),
        keys.checkpoints("id", 1, 2, 3) + keys.checkpoint(4),
        keys.submitted_file("id", "name"),
        keys.cuts("id", 1, 2, "print"),
        keys.joined("id", 1, 2, "print", "name"),
        keys.unit_index("elsewhere/name", "id", "print"),
        keys.byte_range("elsewhere/name", "id", "print"),
        keys.upload("name"),
        keys.dead_letter("name"),
        keys.node_file("id", "sum"),
        keys.node_part("id", 1),
        keys.node_copy("id", "print"),
    ]
    assert len(set(found)) == len(found)
    logs, files = keys.job_prefixes("id")
    assert sum(key.startswith((logs, files)) for key in found) == 9


def test_objects_of_a_node_are_beside_it() -> None:
    assert keys.node_of(keys.node_file("n1", "sum")) == "n1"
    assert keys.node_of(keys.unit_index(keys.node_file("n1", "sum"), "id", "print")) == "n1"
    assert keys.node_of(keys.upload("n1")) is None


def test_a_job_may_read_its_own_objects_and_those_outside_of_the_areas() -> None:
    assert keys.owned_by(keys.submitted_file("id", "name"), "id")
    assert keys.owned_by("data/reads.fna", "id")
    for key in (keys.submitted_file("other", "name"), keys.upload("x"), keys.dead_letter("x"), "logs/id/1"):
        assert not keys.owned_by(key, "id")
