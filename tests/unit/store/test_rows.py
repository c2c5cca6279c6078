from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from shardmill.engine.mill import GROUP_CACHE_MS, MIXED_GROUP_CACHE_MS, TtlCache, recent_groups
from shardmill.model.base import spelled
from shardmill.model.definition.fields import JobDefine, PackConf, StepDefine
from shardmill.model.definition.step_settings import PackSettings, StepSettings
from shardmill.model.files import Partition
from shardmill.model.states import JobState, StepState
from shardmill.store.rows import GroupRow, JobRow, ScheduleRow, StepRow, WorkerRow
from shardmill.store.schedules import BackfillRow

ROWS: list[Any] = [
    JobRow("id", 1, "job", "t1", 1, JobState.INIT, "hash", 1, 1),
    StepRow("id", 1, 0, "a", StepState.WAITING, "job", "t1", 1),
    WorkerRow("w", "worker", 1),
    GroupRow("g", "pull", 60, ["q"], 1, 1, 1),
    ScheduleRow("job", "daily", 1, 1, 1, "me"),
    BackfillRow("job", "daily", 1, "RUNNING", 1, 1, "me"),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: type(row).__name__)
def test_rows_are_immutable(row: Any) -> None:
    for name in row.names():
        with pytest.raises(FrozenInstanceError):
            setattr(row, name, None)


@pytest.mark.parametrize("values", [{"colour": "red"}, {"id": "w", "name": "n"}], ids=["unknown", "twice"])
def test_a_row_takes_each_of_its_fields_once(values: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="WorkerRow takes each of its fields once"):
        WorkerRow("w", "worker", 1, **values)
    with pytest.raises(TypeError, match=r"WorkerRow requires: \['session'\]"):
        WorkerRow("w", name="worker")  # type: ignore[call-arg]


def test_a_row_shows_its_fields_and_cannot_be_hashed() -> None:
    assert repr(ROWS[3]).startswith("GroupRow(name='g', kind='pull', lease_seconds=60, queues=['q'],")
    assert ROWS[3] != ROWS[2]
    with pytest.raises(TypeError, match="unhashable"):
        hash(ROWS[3])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: type(row).__name__)
def test_a_row_is_read_back_from_its_item(row: Any) -> None:
    read = type(row).from_item(row.to_item())
    assert read == row
    assert read.to_item() == row.to_item()


def test_absent_attributes_have_independent_defaults() -> None:
    one, other = (StepRow.from_item(ROWS[1].to_item() | {"unknown": 1}) for _ in range(2))
    assert one == other == ROWS[1]
    item = {name: value for name, value in ROWS[1].to_item().items() if name not in ("spec", "context")}
    assert StepRow.from_item(item).spec is not StepRow.from_item(item).spec


def test_an_item_without_a_required_attribute_is_rejected() -> None:
    item = {name: value for name, value in ROWS[1].to_item().items() if name not in ("run", "index")}
    with pytest.raises(TypeError, match=r"StepRow requires: \['index', 'run'\]"):
        StepRow.from_item(item)


def test_states_are_read_as_enums_and_written_as_plain_text() -> None:
    item = ROWS[1].to_item()
    assert type(item["state"]) is str
    assert StepRow.from_item(item).state is StepState.WAITING


def test_evolve_copies_and_rejects_unknown_fields() -> None:
    row: StepRow = ROWS[1]
    changed = row.evolve(total=5, spec={"stepName": "a", "failFast": True})
    assert (changed.total, row.total) == (5, 0)
    assert changed.evolve(total=0, spec={}) == row
    with pytest.raises(TypeError, match="StepRow has no field colour"):
        row.evolve(colour="red")


def test_settings_are_parsed_once_for_each_row() -> None:
    row = ROWS[1].evolve(spec={"stepName": "a", "sharding": 3, "failFast": True})
    assert row.define is row.define
    assert row.settings is row.settings
    assert (row.define.sharding, row.settings.fail_fast) == (3, True)
    changed = row.evolve(spec={"stepName": "a", "sharding": 4})
    assert (changed.define.sharding, changed.settings.fail_fast) == (4, False)


def test_settings_agree_with_the_models() -> None:
    job = JobDefine(job_name="j", steps=[StepDefine(step_name="a")])
    step, read = job.steps[0], StepSettings.of({})
    for name in StepSettings._fields:
        expected = getattr(step, name)
        if expected is None:
            expected = getattr(job, name, None)
        assert getattr(read, name) == expected, name
    given: dict[str, Any] = {
        "type": "shell",
        "tolerated_failures": "5%",
        "can_fail": True,
        "fail_fast": True,
        "run_if_skipped": True,
        "failed_backoff": 2.0,
        "when": "{{ params.x }}",
        "step_type": "PACK",
        "items": "{{ params.list }}",
        "params": {"x": 1},
        "pack_conf": PackConf(size=10, start=1, end=25),
        "partition": Partition(input="text"),
    }
    given |= {name: 7 for name in StepSettings._fields if name not in given}
    spec = StepDefine(step_name="a", **given).model_dump(mode="json", by_alias=True)
    assert {spelled(name) for name in given} <= spec.keys()
    plain = {"pack_conf": PackSettings(10, 1, 25), "partition": spec["partition"]}
    assert StepSettings.of(spec) == StepSettings(**given | plain)


def test_a_cached_row_is_replaced_only_if_it_is_the_one_that_was_read() -> None:
    cache: TtlCache[str, StepRow] = TtlCache(1_000)
    first: StepRow = ROWS[1]
    assert cache.get(["k"], lambda _: {"k": first}, now=0) == {"k": first}
    second = first.evolve(total=1)
    cache.replace("k", first, second)
    assert cache.get(["k"], lambda _: {}, now=1_000)["k"] is second
    cache.replace("k", first, first)
    assert cache.get(["k"], lambda _: {}, now=1_000)["k"] is second
    assert cache.get(["k"], lambda _: {}, now=1_001) == {}  # the age is that of the first


def test_a_full_cache_is_cleared() -> None:
    cache: TtlCache[str, str] = TtlCache(1_000, size=2)
    for key in "abc":
        cache.get([key], lambda wanted: dict.fromkeys(wanted, "known"), now=0)
    assert cache.get("abc", lambda wanted: dict.fromkeys(wanted, "read again"), now=0) == {
        "a": "read again",
        "b": "read again",
        "c": "known",
    }


def test_a_group_with_several_priorities_is_cached_for_a_shorter_time() -> None:
    group = GroupRow("default", "pull", 60, ["high", "normal", "low"], 1, 0, 0)
    mixed = group.evolve(lanes={"1": [1], "7": [0]})
    for row, kept in ((group, GROUP_CACHE_MS), (mixed, MIXED_GROUP_CACHE_MS)):
        cache = recent_groups()
        assert cache.get(["default"], lambda _, row=row: {"default": row}, now=0)
        assert cache.get(["default"], lambda _: {}, now=kept) == {"default": row}
        assert cache.get(["default"], lambda _: {}, now=kept + 1) == {}
