"""What a request changes of steps: its spellings, and its faults together with the definition."""

from __future__ import annotations

from typing import Any

import pytest

from shardmill.model.definition.fields import JobDefine, StepDefine
from shardmill.model.definition.step_override import StepOverride, changes
from shardmill.model.definition.validation import check_definition
from shardmill.model.request import check_request


def define(*steps: dict[str, Any]) -> JobDefine:
    found, faults = check_definition({"jobName": "j", "params": {"n": 3}, "steps": list(steps)})
    assert found, faults
    return found


DEFINE = define(
    {"stepName": "one"},
    {"stepName": "shards", "sharding": 4, "startShardId": 1},
    {"stepName": "packs", "packConf": {"size": 10, "start": 0, "end": 99}, "dependentStep": "one"},
    {"stepName": "items", "items": [1, 2]},
    {"stepName": "fixed", "ignorable": False},
)


def checked(*steps: Any, **fields: Any) -> tuple[list[StepOverride], list[tuple[str, str]]]:
    request, faults = check_request({"jobName": "j", "trigger": "t", "steps": list(steps), **fields}, DEFINE)
    return request.steps if request else [], [(each.pointer, each.code) for each in faults]


@pytest.mark.parametrize(
    ("sent", "canonical"),
    [
        ({"name": "shards"}, {}),
        ({"shardConf": {"shard": 6}}, {"sharding": 6}),
        ({"shardConf": {"shard": 6, "startShardId": 2, "maxTaskCount": 1}},
         {"sharding": 6, "startShardId": 2, "maxTaskCount": 1}),
        ({"workerGroup": "g"}, {"workerGroups": ["g"]}),
        ({"traits": ["CAN_FAIL"]}, {"canFail": True}),
        ({"traits": ["can-fail", "archive"]}, {"canFail": True}),
        ({"traits": {"canFail": False}}, {"canFail": False}),
        ({"traits": {"enable": ["canFail"], "disable": ["ARCHIVE"]}}, {"canFail": True}),
        ({"traits": {"disable": ["canFail"]}}, {"canFail": False}),
        ({"priority": None, "sharding": None, "params": None}, {}),
        ({"failedRetries": 2.0}, {"failedRetries": 2}),
    ],
)  # fmt: skip
def test_spellings_of_an_override_are_equivalent(sent: dict[str, Any], canonical: dict[str, Any]) -> None:
    one, faults = checked({**({} if "name" in sent else {"stepName": "shards"}), **sent})
    assert faults == []
    assert one == checked({"stepName": "shards", **canonical})[0]


def test_a_pack_override_changes_only_the_fields_that_it_sets() -> None:
    [override], _ = checked({"stepName": "packs", "packConf": {"end": 49, "startPackId": 1}})
    packs = DEFINE.steps[2]
    changed = packs.model_copy(update=changes(packs, override))
    assert changed.pack_conf.model_dump() == {"size": 10, "start": 0, "end": 49}
    assert changed.start_shard_id == 1


def test_an_override_keeps_the_fields_that_it_does_not_set() -> None:
    step = StepDefine(step_name="a", sharding=3, priority=5, worker_groups=["g"], can_fail=True)
    assert changes(step, StepOverride(step_name="a", params={"x": 1}, ignore=True)) == {}
    assert changes(step, StepOverride(step_name="a", priority=0, can_fail=False)) == {
        "priority": 0,
        "can_fail": False,
    }


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ({"stepName": "shard"}, [("/steps/0/stepName", "unknown-step")]),
        ({"name": "shard"}, [("/steps/0/name", "unknown-step")]),
        ({"name": "one", "stepName": "one"}, [("/steps/0/name", "both-spellings")]),
        ({"sharding": 2}, [("/steps/0/stepName", "missing-field")]),
        ({"stepName": "one", "sharding": 0}, [("/steps/0/sharding", "out-of-range")]),
        ({"stepName": "one", "sharding": 1_000_001}, [("/steps/0/sharding", "out-of-range")]),
        ({"stepName": "one", "sharding": "{{ params.m }}"}, [("/steps/0/sharding", "bad-template")]),
        ({"stepName": "one", "sharding": "{{ steps.items.output }}"},
         [("/steps/0/sharding", "bad-template")]),
        ({"stepName": "one", "shardConf": {"shrad": 2}}, [("/steps/0/shardConf/shrad", "unknown-field")]),
        ({"stepName": "shards", "sharding": 1}, [("/steps/0", "no-tasks")]),
        ({"stepName": "shards", "startShardId": 4}, [("/steps/0/startShardId", "no-tasks")]),
        ({"stepName": "shards", "packConf": {"size": 1, "start": 0, "end": 1}},
         [("/steps/0/packConf", "both-spellings")]),
        ({"stepName": "packs", "shardConf": {"shard": 2}}, [("/steps/0/shardConf/shard", "both-spellings")]),
        ({"stepName": "packs", "packConf": {"end": -1}}, [("/steps/0/packConf/end", "out-of-range")]),
        ({"stepName": "packs", "packConf": {"size": 1, "end": 10**7}},
         [("/steps/0/packConf", "out-of-range")]),
        ({"stepName": "packs", "packConf": {"startPackId": 10}},
         [("/steps/0/packConf/startPackId", "no-tasks")]),
        ({"stepName": "items", "sharding": 3}, [("/steps/0/sharding", "both-spellings")]),
        ({"stepName": "fixed", "ignore": True}, [("/steps/0/ignore", "not-ignorable")]),
        ({"stepName": "one", "ignore": "yes"}, [("/steps/0/ignore", "bad-type")]),
        ({"stepName": "one", "traits": ["ignorable"]}, [("/steps/0/traits/0", "bad-value")]),
        ({"stepName": "one", "traits": ["fast"]}, [("/steps/0/traits/0", "bad-value")]),
        ({"stepName": "one", "traits": [7]}, [("/steps/0/traits/0", "bad-type")]),
        ({"stepName": "one", "traits": "canFail"}, [("/steps/0/traits", "bad-type")]),
        ({"stepName": "one", "traits": {"canFail": 1}}, [("/steps/0/traits/canFail", "bad-type")]),
        ({"stepName": "one", "traits": {"enable": "canFail"}}, [("/steps/0/traits/enable", "bad-type")]),
        ({"stepName": "one", "timeoutSeconds": 0}, [("/steps/0/timeoutSeconds", "out-of-range")]),
        ({"stepName": "one", "workerGroup": "a b"}, [("/steps/0/workerGroup", "bad-name")]),
        ({"stepName": "one", "content": "rm"}, [("/steps/0/content", "unknown-field")]),
        ("one", [("/steps/0", "bad-type")]),
    ],
)  # fmt: skip
def test_an_override_is_checked_as_a_definition_is(override: Any, expected: list[tuple[str, str]]) -> None:
    assert checked(override)[1] == expected


def test_parameters_of_the_request_can_be_used_in_an_override() -> None:
    assert checked({"stepName": "one", "sharding": "{{ params.m }}"}, params={"m": 2})[1] == []
