"""Every field of the three seeds has a counterpart in the API.

`tests/integration/definitions/test_seed_values.py` checks the values of a run.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from shardmill.model.definition.answers import SavedDefine
from shardmill.model.definition.command import Command
from shardmill.model.definition.fields import Dependency, Info, JobDefine, StepDefine
from shardmill.model.files import File, Partition, RunFile
from shardmill.model.groups.group import WorkerGroup
from shardmill.model.job import DependencyStatus, Job, Step, Task
from shardmill.model.request import JobRequest
from shardmill.model.time.schedule import SavedSchedule, Schedule
from shardmill.model.worker import Worker
from support.paths import PROJECT

TESTS = PROJECT / "tests"
MODELS: dict[str, type[BaseModel]] = {
    model.__name__: model
    for model in (
        *(JobDefine, SavedDefine, StepDefine, Dependency, Info, Command, File, Partition, RunFile),
        *(JobRequest, Job, Step, Task, Worker, WorkerGroup, Schedule, SavedSchedule, DependencyStatus),
    )
}


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


SEED_FIELDS = _rows(TESTS / "data" / "seed-fields.csv")
SEED_MAP = _rows(TESTS.parent / "docs" / "seed-map.csv")


def _key(row: dict[str, str]) -> tuple[str, str, str]:
    return row["seed"], row["entity"], row["field"]


def _resolve(where: str) -> dict[str, Any]:
    """Return the schema at a path such as `Task.sharding.total`; raise a KeyError if there is none."""
    name, *parts = where.split(".")
    root = MODELS[name].model_json_schema(mode="serialization", by_alias=True)
    at = root
    for part in parts:
        at = _plain(at, root)["properties"][part]
    return _plain(at, root)


def _plain(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """Resolve references, optional values and lists."""
    if "$ref" in schema:
        return _plain(root["$defs"][schema["$ref"].rsplit("/", 1)[1]], root)
    for option in schema.get("anyOf", ()):
        if option.get("type") != "null":
            return _plain(option, root)
    return _plain(schema["items"], root) if schema.get("type") == "array" else schema


def test_every_seed_field_has_exactly_one_row() -> None:
    assert [_key(row) for row in SEED_MAP] == [_key(row) for row in SEED_FIELDS]
    assert len(SEED_MAP) == 180


@pytest.mark.parametrize("row", SEED_MAP, ids=lambda row: ".".join(_key(row)))
def test_every_field_of_the_seeds_resolves(row: dict[str, str]) -> None:
    assert _resolve(row["where"])


def test_a_path_that_does_not_exist_is_not_resolved() -> None:
    with pytest.raises(KeyError):
        _resolve("Job.lastfailed")
