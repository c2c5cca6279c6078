"""What one step hands to the next: outputs in texts, dynamic fan-out, and conditions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from shardmill.engine.running import open_step
from shardmill.model.worker import Lease
from support.play import Play, fail_shards

Outputs = Mapping[str, Any]


def run(play: Play, outputs: Outputs, trigger: str = "t1") -> dict[str, Any]:
    """Work until the Job ends; each task hands on what `outputs` has for its step (a tuple: by shard)."""

    def work() -> None:
        for lease in play.hands.take():
            play.leased.append(lease)
            play.hands.report([lease], output=_output(lease, outputs.get(lease.step_name)))

    play.cloud.run_until(lambda: play.ended(trigger), 30, meanwhile=work)
    return play.job(trigger)


def _output(lease: Lease, given: Any) -> Any:
    return given[lease.sharding.index] if isinstance(given, tuple) else given


def contents(play: Play, step: str) -> list[Any]:
    leases = [lease for lease in play.leased if lease.step_name == step]
    return [lease.content for lease in sorted(leases, key=lambda each: each.sharding.index)]


def shell(name: str, content: str, *after: str, **more: Any) -> dict[str, Any]:
    return {"stepName": name, "content": content, "dependentSteps": list(after), **more}


def test_an_output_is_read_by_later_steps(play: Play) -> None:
    play.define(
        shell("one", "make"),
        shell("many", "make", sharding=3),
        shell("next", "echo {{ steps.one.output.date }} {{ steps.many.output }}", "one", "many"),
        shell("last", "echo {{ steps.one.output['rows'][1] }}", "next"),
    )
    play.submit()
    job = run(play, {"one": {"date": "it's", "rows": [1, 22]}, "many": ("a", None, 3)})
    assert job["state"] == "SUCCESS"
    assert contents(play, "next") == ["""echo 'it'"'"'s' '["a",null,3]'"""]
    assert contents(play, "last") == ["echo 22"]


@pytest.mark.parametrize("count", [0, 1, 5, 70])
def test_a_list_becomes_one_task_an_item(play: Play, count: int) -> None:
    play.define(
        shell("list", "ls"),
        shell("each", "work {{ item.name }} {{ shard.index }}", "list", items="{{ steps.list.output }}"),
        shell("end", "echo {{ steps.each.output | length }}", "each"),
    )
    play.submit()
    items = [{"name": f"n{at}"} for at in range(count)]
    job = run(play, {"list": items, "each": tuple(range(count))})
    assert job["state"] == "SUCCESS"
    assert contents(play, "each") == [f"work n{at} {at}" for at in range(count)]
    assert contents(play, "end") == [f"echo {count}"]
    assert play.step("each")["totalWork"] == count
    items_seen = [lease.environ["SHARDMILL_ITEM"] for lease in play.leased if lease.step_name == "each"]
    assert sorted(map(json.loads, items_seen), key=str) == sorted(items, key=str)


def test_the_number_of_tasks_comes_from_an_output_or_a_parameter(play: Play) -> None:
    play.define(
        shell("list", "ls"),
        shell("a", "a", "list", sharding="{{ steps.list.output | length }}"),
        shell("b", "b", sharding="{{ params.n }}"),
        shell("c", "c {{ item }}", items=["x", "y"]),
        params={"n": "3"},
    )
    play.submit(params={"n": "4"})
    job = run(play, {"list": [1, 2]})
    assert [step["totalWork"] for step in job["steps"]] == [1, 2, 4, 2]
    assert contents(play, "c") == ["c x", "c y"]


@pytest.mark.parametrize(
    ("step", "output", "why"),
    [
        ({"items": "{{ steps.list.output }}"}, {"a": 1}, "its items are no list, but an object"),
        ({"sharding": "{{ steps.list.output }}"}, -1, "its sharding is no number from 0 to 1000000, but -1"),
        ({"sharding": "{{ steps.list.output.n }}"}, {}, "has no value here"),
        ({"when": "{{ steps.list.output > 3 }}"}, "x", "its condition cannot be told"),
        ({"content": "{{ steps.list.output }}"}, ["x" * 60_000] * 1, None),
    ],
)
def test_what_does_not_fit_fails_the_step_truthfully(play: Play, step: Any, output: Any, why: Any) -> None:
    play.define(shell("list", "ls"), {"content": "x", **step, "stepName": "next", "dependentStep": "list"})
    play.submit()
    job = run(play, {"list": output})
    assert job["state"] == ("FAILED" if why else "SUCCESS")
    assert not why or why in job["steps"][1]["notes"]


def test_a_step_that_cannot_open_is_tolerated_if_it_may_fail(play: Play) -> None:
    play.define(
        shell("list", "ls"),
        shell("each", "x", "list", items="{{ steps.list.output }}", canFail=True),
        shell("last", "x", "each"),
    )
    play.submit()
    assert run(play, {"list": "no list"})["state"] == "SUCCESS"
    assert play.states() == {"list": "SUCCESS", "each": "TOLERATED", "last": "SUCCESS"}


def test_too_much_to_hand_on_is_said(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_step, "MAX_VALUE_BYTES", 1_000)
    play.define(shell("many", "make", sharding=3), shell("next", "echo {{ steps.many.output }}", "many"))
    play.submit()
    job = run(play, {"many": ("x" * 400, "y" * 400, "z" * 400)})
    assert job["state"] == "FAILED"
    assert "larger data belongs into files" in job["steps"][1]["notes"]


CONDITIONAL = (
    shell("look", "look"),
    shell("clean", "clean", "look", when="{{ steps.look.output.dirty }}"),
    shell("after", "after", "clean"),
    shell("always", "always", "clean", "look", runIfSkipped=True),
    shell("last", "last {{ steps.clean.output | default('none') }}", "after", runIfSkipped=True),
)


@pytest.mark.parametrize("dirty", [True, False])
def test_a_step_runs_only_if_its_condition_is_true(play: Play, dirty: bool) -> None:
    play.define(*CONDITIONAL)
    play.submit()
    job = run(play, {"look": {"dirty": dirty}, "clean": "cleaned"})
    assert job["state"] == "SUCCESS"
    state = "SUCCESS" if dirty else "SKIPPED"
    assert play.states() == {
        "look": "SUCCESS",
        "clean": state,
        "after": state,
        "always": "SUCCESS",
        "last": "SUCCESS",
    }
    assert contents(play, "last") == [f"last {'cleaned' if dirty else 'none'}"]
    notes = job["steps"][1]["notes"]
    assert notes == ("" if dirty else "its condition is false: {{ steps.look.output.dirty }}")


def test_a_failure_is_no_condition(play: Play) -> None:
    """`runIfSkipped` lets a step run after one that nobody wanted, not after one that failed."""
    play.define(*CONDITIONAL)
    play.submit()
    assert play.run(fail_shards(0, step="look"))["state"] == "FAILED"
    assert {name: state for name, state in play.states().items() if name != "look"} == dict.fromkeys(
        ["clean", "after", "always", "last"], "SKIPPED"
    )


def test_a_condition_on_parameters_skips_a_first_step(play: Play) -> None:
    play.define(
        shell("a", "a", when="{{ params.full and params.n > 1 }}"),
        shell("b", "b", when="{{ params.n in params.allowed }}", runIfSkipped=True),
        params={"full": False, "n": 2, "allowed": [2, 3]},
    )
    play.submit()
    assert run(play, {})["state"] == "SUCCESS"
    assert play.states() == {"a": "SKIPPED", "b": "SUCCESS"}
    play.submit("t2", params={"full": True, "n": 4})
    assert run(play, {}, "t2")["state"] == "SUCCESS"
    assert play.states("t2") == {"a": "SUCCESS", "b": "SKIPPED"}


def test_a_rerun_of_what_failed_keeps_outputs_items_and_conditions(play: Play) -> None:
    play.define(
        shell("list", "ls"),
        shell("each", "work {{ item }}", "list", items="{{ steps.list.output }}"),
        shell("sum", "sum {{ steps.each.output }}", "each"),
        shell("never", "x", "list", when="{{ steps.list.output | length > 9 }}"),
    )
    play.submit()

    def work() -> None:
        for lease in play.hands.take():
            bad = lease.step_name == "each" and lease.sharding.index == 1
            output = ["p", "q", "r"] if lease.step_name == "list" else f"did {lease.content}"
            play.hands.report([lease], "failed-permanent" if bad else "success", output=output)

    play.cloud.run_until(play.ended, 30, meanwhile=work)
    assert play.states() == {"list": "SUCCESS", "each": "FAILED", "sum": "SKIPPED", "never": "SKIPPED"}
    assert play.cloud.http("POST", "/v1/jobs/play/t1:rerun").status == 200
    play.leased = []
    job = run(play, {"each": "again"})
    assert job["state"] == "SUCCESS"
    assert contents(play, "each") == ["work q"]
    assert contents(play, "sum") == ["""sum '["did work p","again","did work r"]'"""]
    assert play.states()["never"] == "SKIPPED"
    assert play.cloud.http("POST", "/v1/jobs/play/t1:rerun").status == 409  # nothing failed


def test_a_recomputed_list_makes_other_tasks(play: Play) -> None:
    play.define(
        shell("list", "ls"),
        shell("each", "work {{ item }}", "list", items="{{ steps.list.output }}"),
    )
    play.submit()
    run(play, {"list": ["a"]})
    assert play.cloud.http("POST", "/v1/jobs/play/t1:recompute", {"stepName": "list"}).status == 200
    play.leased = []
    assert run(play, {"list": ["b", "c"]})["state"] == "SUCCESS"
    assert contents(play, "each") == ["work b", "work c"]


@pytest.mark.parametrize(
    ("step", "pointer", "said"),
    [
        ({"content": "{{ steps.other.output }}"}, "/steps/1/content", "not upstream"),
        ({"when": "yes"}, "/steps/1/when", "must be one {{"),
        ({"when": "{{ shard.index == 0 }}"}, "/steps/1/when", "known in tasks only"),
        ({"content": "{{ item }}"}, "/steps/1/content", "items only"),
        ({"items": [1], "sharding": 2}, "/steps/1/sharding", "give one of them"),
        ({"sharding": 0}, "/steps/1/sharding", "must be a number from 1 to 1000000"),
        ({"sharding": "{{ steps.a.output | size }}"}, "/steps/1/sharding", "size"),
        ({"items": "{{ steps.a.output"}, "/steps/1/items", "never closed"),
    ],
)
def test_templates_are_checked_when_the_definition_is_saved(
    play: Play, step: dict[str, Any], pointer: str, said: str
) -> None:
    steps = [shell("a", "a"), {"stepName": "b", "dependentStep": "a", **step}, shell("other", "x")]
    answer = play.cloud.http("PUT", "/v1/definitions/play", {"steps": steps})
    assert answer.status == 422
    faults = {each["pointer"]: each["message"] for each in answer.json["faults"]}
    assert said in faults[pointer], faults
