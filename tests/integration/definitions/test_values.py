"""Values between steps: outputs in templates, dynamic fan-out and conditions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from shardmill.engine.running import open_step
from shardmill.model.worker import Lease
from support.scenarios.job_runner import JobRunner, fail_shards
from support.scenarios.manual_worker import ManualWorker

Outputs = Mapping[str, Any]


def run(runner: JobRunner, outputs: Outputs, trigger: str = "t1") -> dict[str, Any]:
    """Work until the Job ends; each task reports the output given for its step (a tuple: one per shard)."""

    def work() -> None:
        for lease in runner.worker.take():
            runner.leased.append(lease)
            runner.worker.report([lease], output=_output(lease, outputs.get(lease.step_name)))

    runner.cloud.run_until(lambda: runner.ended(trigger), 30, meanwhile=work)
    return runner.job(trigger)


def _output(lease: Lease, given: Any) -> Any:
    return given[lease.sharding.index] if isinstance(given, tuple) else given


def contents(runner: JobRunner, step: str) -> list[Any]:
    leases = [lease for lease in runner.leased if lease.step_name == step]
    return [lease.content for lease in sorted(leases, key=lambda each: each.sharding.index)]


def shell(name: str, content: str, *after: str, **more: Any) -> dict[str, Any]:
    return {"stepName": name, "content": content, "dependentSteps": list(after), **more}


def test_an_output_is_read_by_later_steps(runner: JobRunner) -> None:
    runner.define(
        shell("one", "make"),
        shell("many", "make", sharding=3),
        shell("next", "echo {{ steps.one.output.date }} {{ steps.many.output }}", "one", "many"),
        shell("last", "echo {{ steps.one.output['rows'][1] }}", "next"),
    )
    runner.submit()
    job = run(runner, {"one": {"date": "it's", "rows": [1, 22]}, "many": ("a", None, 3)})
    assert job["state"] == "SUCCESS"
    assert contents(runner, "next") == ["""echo 'it'"'"'s' '["a",null,3]'"""]
    assert contents(runner, "last") == ["echo 22"]


@pytest.mark.parametrize("count", [0, 1, 5, 70])
def test_a_list_becomes_one_task_per_item(runner: JobRunner, count: int) -> None:
    runner.define(
        shell("list", "ls"),
        shell("each", "work {{ item.name }} {{ shard.index }}", "list", items="{{ steps.list.output }}"),
        shell("end", "echo {{ steps.each.output | length }}", "each"),
    )
    runner.submit()
    items = [{"name": f"n{at}"} for at in range(count)]
    job = run(runner, {"list": items, "each": tuple(range(count))})
    assert job["state"] == "SUCCESS"
    assert contents(runner, "each") == [f"work n{at} {at}" for at in range(count)]
    assert contents(runner, "end") == [f"echo {count}"]
    assert runner.step("each")["totalWork"] == count
    items_seen = [lease.environ["SHARDMILL_ITEM"] for lease in runner.leased if lease.step_name == "each"]
    assert sorted(map(json.loads, items_seen), key=str) == sorted(items, key=str)


def test_the_number_of_tasks_comes_from_an_output_or_a_parameter(runner: JobRunner) -> None:
    runner.define(
        shell("list", "ls"),
        shell("a", "a", "list", sharding="{{ steps.list.output | length }}"),
        shell("b", "b", sharding="{{ params.n }}"),
        shell("c", "c {{ item }}", items=["x", "y"]),
        params={"n": "3"},
    )
    runner.submit(params={"n": "4"})
    job = run(runner, {"list": [1, 2]})
    assert [step["totalWork"] for step in job["steps"]] == [1, 2, 4, 2]
    assert contents(runner, "c") == ["c x", "c y"]


@pytest.mark.parametrize(
    ("step", "output", "why"),
    [
        ({"items": "{{ steps.list.output }}"}, {"a": 1}, "its items must be a list, not an object"),
        (
            {"sharding": "{{ steps.list.output }}"},
            -1,
            "its sharding must be an integer from 0 to 1000000, not -1",
        ),
        ({"sharding": "{{ steps.list.output.n }}"}, {}, "has no value here"),
        ({"when": "{{ steps.list.output > 3 }}"}, "x", "its condition cannot be evaluated"),
        ({"content": "{{ steps.list.output }}"}, ["x" * 60_000] * 1, None),
    ],
)
def test_invalid_values_fail_the_step_with_a_reason(
    runner: JobRunner, step: Any, output: Any, why: Any
) -> None:
    runner.define(shell("list", "ls"), {"content": "x", **step, "stepName": "next", "dependentStep": "list"})
    runner.submit()
    job = run(runner, {"list": output})
    assert job["state"] == ("FAILED" if why else "SUCCESS")
    assert not why or why in job["steps"][1]["notes"]


def test_a_step_that_can_fail_is_tolerated_if_it_cannot_open(runner: JobRunner) -> None:
    runner.define(
        shell("list", "ls"),
        shell("each", "x", "list", items="{{ steps.list.output }}", canFail=True),
        shell("last", "x", "each"),
    )
    runner.submit()
    assert run(runner, {"list": "no list"})["state"] == "SUCCESS"
    assert runner.states() == {"list": "SUCCESS", "each": "TOLERATED", "last": "SUCCESS"}


def test_values_that_are_too_large_fail_the_step_with_a_note(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_step, "MAX_VALUE_BYTES", 1_000)
    runner.define(shell("many", "make", sharding=3), shell("next", "echo {{ steps.many.output }}", "many"))
    runner.submit()
    job = run(runner, {"many": ("x" * 400, "y" * 400, "z" * 400)})
    assert job["state"] == "FAILED"
    assert "pass larger data in files" in job["steps"][1]["notes"]


CONDITIONAL = (
    shell("look", "look"),
    shell("clean", "clean", "look", when="{{ steps.look.output.dirty }}"),
    shell("after", "after", "clean"),
    shell("always", "always", "clean", "look", runIfSkipped=True),
    shell("last", "last {{ steps.clean.output | default('none') }}", "after", runIfSkipped=True),
)


@pytest.mark.parametrize("dirty", [True, False])
def test_a_step_runs_only_if_its_condition_is_true(runner: JobRunner, dirty: bool) -> None:
    runner.define(*CONDITIONAL)
    runner.submit()
    job = run(runner, {"look": {"dirty": dirty}, "clean": "cleaned"})
    assert job["state"] == "SUCCESS"
    state = "SUCCESS" if dirty else "SKIPPED"
    assert runner.states() == {
        "look": "SUCCESS",
        "clean": state,
        "after": state,
        "always": "SUCCESS",
        "last": "SUCCESS",
    }
    assert contents(runner, "last") == [f"last {'cleaned' if dirty else 'none'}"]
    notes = job["steps"][1]["notes"]
    assert notes == ("" if dirty else "its condition is false: {{ steps.look.output.dirty }}")


def test_run_if_skipped_does_not_apply_to_a_failed_step(runner: JobRunner) -> None:
    """A step with `runIfSkipped` runs after one whose condition was false, not after one that failed."""
    runner.define(*CONDITIONAL)
    runner.submit()
    assert runner.run(fail_shards(0, step="look"))["state"] == "FAILED"
    assert {name: state for name, state in runner.states().items() if name != "look"} == dict.fromkeys(
        ["clean", "after", "always", "last"], "SKIPPED"
    )


def test_a_condition_on_parameters_skips_a_first_step(runner: JobRunner) -> None:
    runner.define(
        shell("a", "a", when="{{ params.full and params.n > 1 }}"),
        shell("b", "b", when="{{ params.n in params.allowed }}", runIfSkipped=True),
        params={"full": False, "n": 2, "allowed": [2, 3]},
    )
    runner.submit()
    assert run(runner, {})["state"] == "SUCCESS"
    assert runner.states() == {"a": "SKIPPED", "b": "SUCCESS"}
    runner.submit("t2", params={"full": True, "n": 4})
    assert run(runner, {}, "t2")["state"] == "SUCCESS"
    assert runner.states("t2") == {"a": "SUCCESS", "b": "SKIPPED"}


def test_a_rerun_of_failed_tasks_keeps_outputs_items_and_conditions(runner: JobRunner) -> None:
    runner.define(
        shell("list", "ls"),
        shell("each", "work {{ item }}", "list", items="{{ steps.list.output }}"),
        shell("sum", "sum {{ steps.each.output }}", "each"),
        shell("never", "x", "list", when="{{ steps.list.output | length > 9 }}"),
    )
    runner.submit()

    def work() -> None:
        for lease in runner.worker.take():
            bad = lease.step_name == "each" and lease.sharding.index == 1
            output = ["p", "q", "r"] if lease.step_name == "list" else f"did {lease.content}"
            runner.worker.report([lease], "failed-permanent" if bad else "success", output=output)

    runner.cloud.run_until(runner.ended, 30, meanwhile=work)
    assert runner.states() == {"list": "SUCCESS", "each": "FAILED", "sum": "SKIPPED", "never": "SKIPPED"}
    assert runner.cloud.http("POST", "/v1/jobs/orders/t1:rerun").status == 200
    runner.leased = []
    job = run(runner, {"each": "again"})
    assert job["state"] == "SUCCESS"
    assert contents(runner, "each") == ["work q"]
    assert contents(runner, "sum") == ["""sum '["did work p","again","did work r"]'"""]
    assert runner.states()["never"] == "SKIPPED"
    assert runner.cloud.http("POST", "/v1/jobs/orders/t1:rerun").status == 409  # nothing failed


def test_a_recomputed_list_creates_new_tasks(runner: JobRunner) -> None:
    runner.define(
        shell("list", "ls"),
        shell("each", "work {{ item }}", "list", items="{{ steps.list.output }}"),
    )
    runner.submit()
    run(runner, {"list": ["a"]})
    assert runner.cloud.http("POST", "/v1/jobs/orders/t1:recompute", {"stepName": "list"}).status == 200
    runner.leased = []
    assert run(runner, {"list": ["b", "c"]})["state"] == "SUCCESS"
    assert contents(runner, "each") == ["work b", "work c"]


@pytest.mark.parametrize(
    ("step", "pointer", "message"),
    [
        ({"content": "{{ steps.other.output }}"}, "/steps/1/content", "not upstream"),
        ({"when": "yes"}, "/steps/1/when", "must be a single {{"),
        ({"when": "{{ shard.index == 0 }}"}, "/steps/1/when", "only available in tasks"),
        ({"content": "{{ item }}"}, "/steps/1/content", "only available in a step with items"),
        ({"items": [1], "sharding": 2}, "/steps/1/sharding", "cannot be combined with items"),
        ({"sharding": 0}, "/steps/1/sharding", "must be a number from 1 to 1000000"),
        ({"sharding": "{{ steps.a.output | size }}"}, "/steps/1/sharding", "size"),
        ({"items": "{{ steps.a.output"}, "/steps/1/items", "not closed"),
    ],
)
def test_templates_are_checked_when_the_definition_is_saved(
    runner: JobRunner, step: dict[str, Any], pointer: str, message: str
) -> None:
    steps = [shell("a", "a"), {"stepName": "b", "dependentStep": "a", **step}, shell("other", "x")]
    response = runner.cloud.http("PUT", "/v1/definitions/orders", {"steps": steps})
    assert response.status == 422
    faults = {each["pointer"]: each["message"] for each in response.json["faults"]}
    assert message in faults[pointer], faults


def test_a_command_name_that_cannot_be_rendered_fails_its_task(runner: JobRunner) -> None:
    runner.define(
        shell("a", "x"),
        {"stepName": "b", "dependentStep": "a", "command": {"name": "{{ steps.a.output.program }}"}},
    )
    runner.submit()
    runner.worker = ManualWorker(runner.mill, "limited", ["default"], ["shell"])
    faults = []

    def work() -> None:
        for lease in runner.worker.take():
            faults.append(lease.fault)
            runner.worker.report([lease], "failed-permanent" if lease.fault else "success", output={})

    runner.cloud.run_until(runner.ended, 30, meanwhile=work)
    assert faults[0] is None
    assert "has no 'program'" in faults[1]
    assert runner.states() == {"a": "SUCCESS", "b": "FAILED"}


def test_a_recomputed_value_is_read_again_by_a_later_phase(runner: JobRunner) -> None:
    runner.define(shell("a", "a"), shell("b", "b", phase=1), shell("c", "c {{ steps.a.output }}", phase=1))
    runner.submit()
    run(runner, {"a": "one"})
    runner.post("/v1/jobs/orders/t1:recompute", {"stepName": "a"})
    runner.leased = []
    assert run(runner, {"a": "two"})["state"] == "SUCCESS"
    assert (contents(runner, "b"), contents(runner, "c")) == ([], ["c two"])


def test_a_rerun_evaluates_a_condition_on_a_failed_step_again(runner: JobRunner) -> None:
    runner.define(shell("a", "a"), shell("b", "b", phase=1, when="{{ steps.a.output == 'good' }}"))
    runner.submit()
    assert runner.run(fail_shards(0, step="a"))["state"] == "FAILED"
    assert runner.states()["b"] == "SKIPPED"
    runner.post("/v1/jobs/orders/t1:rerun")
    assert run(runner, {"a": "good"})["state"] == "SUCCESS"
    assert runner.states()["b"] == "SUCCESS"


def test_items_are_stored_once(runner: JobRunner) -> None:
    runner.define(
        shell("list", "ls", sharding=4),
        shell("each", "work {{ item | length }}", "list", items="{{ steps.list.output }}"),
    )
    runner.submit()
    assert run(runner, {"list": "x" * 40_000})["state"] == "SUCCESS"
    assert contents(runner, "each") == ["work 40000"] * 4
    assert "steps" not in runner.row(1).context


def test_values_that_do_not_fit_beside_a_large_step_fail_it_with_a_note(runner: JobRunner) -> None:
    content = f"true # {'y' * 250_000} {{{{ steps.list.output }}}}"
    runner.define(shell("list", "ls", sharding=3), shell("large", content, "list"))
    runner.submit()
    assert run(runner, {"list": "x" * 60_000})["state"] == "FAILED"
    assert "pass larger data in files" in runner.job()["steps"][1]["notes"]


def rerun_all(runner: JobRunner) -> None:
    runner.post("/v1/jobs/orders/t1:rerun", {"scope": "all"})


def attempts_per_run(runner: JobRunner) -> list[tuple[int, int]]:
    """Return the run and attempt of each lease of `each`, and check what its environment says."""
    leases = [lease for lease in runner.leased if lease.step_name == "each"]
    for lease in leases:
        assert lease.environ["SHARDMILL_RUN"] == str(lease.run)
        assert lease.environ["SHARDMILL_ATTEMPT"] == str(lease.attempt)
    assert len({(lease.task_id, lease.attempt) for lease in leases}) == len(leases)
    return [(lease.run, lease.attempt) for lease in leases]


def test_attempts_of_a_step_over_items_count_on_in_each_rerun(runner: JobRunner) -> None:
    runner.define(
        shell("list", "ls"),
        shell("each", "work {{ item }}", "list", items="{{ steps.list.output }}"),
    )
    runner.submit()
    run(runner, {"list": ["a", "b"]})
    rerun_all(runner)
    run(runner, {"list": ["a", "b", "c"]})
    assert attempts_per_run(runner) == [(1, 1), (1, 1), (2, 2), (2, 2), (2, 2)]
    rerun_all(runner)
    runner.cloud.run_until(lambda: runner.job()["state"] != "INIT")
    runner.post("/v1/jobs/orders/t1:kill")  # before any task of `each`
    rerun_all(runner)
    run(runner, {"list": ["a", "b", "c"]})
    assert attempts_per_run(runner)[5:] == [(4, 3), (4, 3), (4, 3)]


def test_attempts_count_on_if_a_rerun_ends_before_it_is_planned(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner.define(
        shell("list", "ls"),
        shell("each", "work {{ item }}", "list", items="{{ steps.list.output }}"),
        shell("fixed", "x", "list"),
    )
    runner.submit()
    run(runner, {"list": ["a"]})
    with monkeypatch.context() as patch:
        patch.setattr(type(runner.mill.machines), "start_job", lambda *_: None)
        rerun_all(runner)
    runner.post("/v1/jobs/orders/t1:kill")
    rerun_all(runner)
    run(runner, {"list": ["a", "b"]})
    assert attempts_per_run(runner) == [(1, 1), (3, 2), (3, 2)]
    assert [lease.attempt for lease in runner.leased if lease.step_name == "fixed"] == [1, 2]


def test_templates_and_conditions_read_the_state_and_counts_of_a_step(runner: JobRunner) -> None:
    runner.define(
        {"stepName": "load-all", "sharding": 3, "toleratedFailures": 1},
        {"stepName": "bad"},
        {"stepName": "never", "dependentStep": "bad", "sharding": 2},
        {
            "stepName": "alert",
            "doneSteps": ["load-all", "never"],
            "when": "{{ steps.bad.state == 'FAILED' and steps.load-all.counts.FAILED > 0 }}",
            "content": "{{ steps.bad.state }} {{ steps.never.state }} {{ steps.load-all.counts.SUCCESS }}",
        },
        {"stepName": "quiet", "doneSteps": ["bad"], "when": "{{ steps.bad.state == 'SUCCESS' }}"},
        {
            "stepName": "count",
            "doneSteps": ["never"],
            "sharding": "{{ steps.never.counts.WAITING }}",
            "content": "{{ steps.never.counts | json }}",
        },
    )
    runner.submit()
    runner.run(lambda lease: _fail(lease, {("load-all", 2), ("bad", 0)}))
    assert runner.states() == {
        "load-all": "SUCCESS",
        "bad": "FAILED",
        "never": "SKIPPED",
        "alert": "SUCCESS",
        "quiet": "SKIPPED",
        "count": "SUCCESS",
    }
    contents = {lease.step_name: lease.content for lease in runner.leased}
    assert contents["alert"] == "FAILED SKIPPED 2"
    assert "WAITING" in contents["count"]
    assert runner.step("count")["totalWork"] == 2


def _fail(lease: Lease, failing: set[tuple[str, int]]) -> str:
    return "failed-permanent" if (lease.step_name, lease.sharding.index) in failing else "success"


def test_a_state_needs_no_outputs(runner: JobRunner) -> None:
    runner.define(
        {"stepName": "a", "sharding": 500},
        {"stepName": "b", "dependentStep": "a", "content": "{{ steps.a.state }}"},
    )
    runner.submit()
    runner.run()
    [lease] = [lease for lease in runner.leased if lease.step_name == "b"]
    assert lease.content == "SUCCESS"


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{{ steps.b.state }}", "step 'b' is not upstream of this one"),
        ("{{ steps.zzz.counts }}", "step 'zzz' is not upstream of this one"),
        ("{{ steps.up.state.x }}", "the state of a step is a text such as SUCCESS and has no parts"),
        ("{{ steps.up.counts.RUNNING }}", "counts has the numbers of tasks by state: SUCCESS, FAILED"),
        ("{{ steps.up.notes }}", "unknown name 'steps.up.notes'"),
    ],
)
def test_names_of_states_and_counts_are_checked_when_saved(
    runner: JobRunner, template: str, said: str
) -> None:
    steps = [{"stepName": "up"}, {"stepName": "b", "dependentStep": "up", "content": template}]
    answer = runner.cloud.http("PUT", "/v1/definitions/orders", {"steps": steps})
    [fault] = answer.json["faults"]
    assert (fault["pointer"], fault["code"]) == ("/steps/1/content", "bad-template")
    assert said in fault["message"]
