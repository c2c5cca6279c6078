"""DynamoDB keys: parsers invert them, sort orders hold, and no other module builds one."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import shardmill
from shardmill.store import group_keys, indexes, keys
from shardmill.store.due import run_keys
from shardmill.store.tasks import keys as task_keys

SOURCE = Path(shardmill.__file__).parent
HOMES = {
    "store/keys.py",
    "store/group_keys.py",
    "store/indexes.py",
    "store/tasks/keys.py",
    "store/due/run_keys.py",
}
ATTRIBUTES = {"pk", "sk", "lk", "ls", "nk", "tk", "dk", "da"}
EXPRESSIONS = {"store/table.py", "store/update.py"}  # `#` begins a placeholder there


def _prefixes() -> tuple[str, ...]:
    """The beginnings of partition keys, such as `JOB#`, as the key modules have them."""
    found = set()
    for name in HOMES:
        for node in ast.walk(ast.parse((SOURCE / name).read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.update(re.findall(r"^[A-Z]+#", node.value))
    return tuple(sorted(found))


PREFIXES = _prefixes()


def _key_literals(path: Path) -> list[str]:
    name = path.relative_to(SOURCE).as_posix()
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
            in_store = name.startswith("store/") and name not in EXPRESSIONS
            if text in ATTRIBUTES or text.startswith(PREFIXES) or (in_store and "#" in text):
                found.append(f"{name}:{node.lineno} {text!r}")
        elif isinstance(node, ast.keyword) and node.arg in ATTRIBUTES:
            found.append(f"{name}:{node.value.lineno} {node.arg}=")
    return found


PACKAGES = ["store", "engine", "aws", "api", "model", "worker", "client", "cli", "transfer", "web"]


@pytest.mark.parametrize("package", PACKAGES)
def test_only_the_key_modules_build_keys(package: str) -> None:
    paths = [
        path for path in (SOURCE / package).rglob("*.py") if path.relative_to(SOURCE).as_posix() not in HOMES
    ]
    assert [literal for path in paths for literal in _key_literals(path)] == []


def test_the_search_finds_the_keys_in_their_own_module() -> None:
    assert len(_key_literals(SOURCE / "store" / "keys.py")) > 50
    assert {"JOB#", "DEF#", "EDGE#", "GROUP#", "T#", "NODE#", "RATE#", "APP#"} <= set(PREFIXES)


def test_parsers_invert_keys() -> None:
    assert keys.parse_child(keys.definition_child("parent", "a#b")) == "a#b"
    assert keys.parse_schedule(keys.schedule("job", "daily")) == ("job", "daily")
    assert keys.parse_backfill(keys.backfill("job", "daily", 12)) == ("job", "daily", 12)
    assert keys.parse_skip(keys.skip("job", "daily", -5)) == -5
    assert keys.parse_job(keys.deadline("id")) == keys.parse_job(keys.step("id", 1, 2)) == "id"
    assert task_keys.parse_set(task_keys.block_set("id", 1, 2, 3)) == 3
    assert task_keys.parse_block(task_keys.block("id", 1, 2, 700)) == 700
    assert task_keys.parse_output(task_keys.output("id", 1, 2, 64_001, 3)) == (64_001, 3)
    assert keys.parse_step_reference(keys.step_reference(("id", 1, 2))) == ("id", 1, 2)
    assert keys.parse_run_reference(keys.run_reference("id", 2)) == ("id", 2)
    assert group_keys.parse_giant(group_keys.giant("group", ("id", 1, 2))) == ("id", 1, 2)


def test_the_workers_of_a_program_are_not_those_of_a_longer_name() -> None:
    _, prefix = group_keys.members_with("blast")
    for app, inside in (
        ("blast", True),
        ("blast#1", False),
        ("blaster", False),
        ("", False),
        ("x" * 256, False),
    ):
        assert group_keys.member("group", "id", app)["sk"].startswith(prefix) is inside
    assert len(group_keys.member("group", "id", "€" * 256)["sk"]) < 300


def test_key_of_returns_only_the_key() -> None:
    key = keys.job("id")
    assert keys.key_of({**key, **indexes.listed(indexes.JOBS, "1"), "value": 1}) == key


def test_only_the_row_of_the_job_itself_is_a_job() -> None:
    assert keys.is_job(keys.job("id"))
    assert not keys.is_job(keys.deadline("id"))
    assert not keys.is_job(keys.step("id", 1, 0))


def test_times_sort_as_text_before_and_after_1970() -> None:
    times = [-(10**13), -1, 0, 1, 999, 10**13]
    assert sorted(map(keys.sort_time, times)) == [keys.sort_time(time) for time in times]


def test_ranges_include_their_ends() -> None:
    partition, (_, first, last) = keys.steps_of_run("id", 2)
    assert partition == ("pk", "JOB#id")
    for run, index, inside in ((2, 0, True), (2, 99_999, True), (1, 99_999, False), (3, 0, False)):
        assert (first <= keys.step("id", run, index)["sk"] <= last) is inside
    _, (_, first, last) = run_keys.runs_between("job", 10, 20)
    for time, inside in ((9, False), (10, True), (19, True), (20, False)):
        assert (first <= run_keys.run_at("job", time, "id")["sk"] <= last) is inside
    _, (_, first, last) = run_keys.edges_after("job", 10)
    for time, inside in ((10, False), (11, True), (10**14, True)):
        assert (first <= run_keys.edge("job", time, "id", 0)["sk"] <= last) is inside
    _, (_, first, last) = keys.definition_versions("job", before=5)
    for version, inside in ((1, True), (4, True), (5, False)):
        assert (first <= keys.definition_version("job", version)["sk"] <= last) is inside


def test_a_row_leaves_the_due_index_without_a_time() -> None:
    assert indexes.due(indexes.DUE_JOBS, None) == {"dk": None, "da": None}
    assert indexes.due(indexes.DUE_JOBS, 7) == {"dk": "due", "da": 7}
