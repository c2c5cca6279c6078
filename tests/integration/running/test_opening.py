"""Steps opened by the call that makes them ready: Lambda calls, state transitions, and failures."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from shardmill.engine.running import open_ahead
from support.scenarios.job_runner import JobRunner


def operations(runner: JobRunner, step: int | None = None) -> list[str]:
    """The calls of the state machines, of one step or of all."""
    return [
        event["action"]
        for function, event in runner.cloud.functions.invoked
        if function == "orchestrate" and step in (None, event.get("step"))
    ]


def transitions(runner: JobRunner) -> tuple[int, list[int]]:
    """The states that the executions of the Job and of its steps entered, in the order of the steps."""
    runner.cloud.wait_for_executions()
    [job] = runner.cloud.executions("job")
    steps = sorted(runner.cloud.executions("step"), key=lambda each: int(each["name"].rsplit("-s")[-1]))
    count = runner.cloud.transitions
    return count(job["executionArn"]), [count(step["executionArn"]) for step in steps]


def chain(length: int, **step: Any) -> Iterator[dict[str, Any]]:
    yield {"stepName": "s0", **step}
    for before, after in pairwise(range(length)):
        yield {"stepName": f"s{after}", "dependentStep": f"s{before}", **step}


def test_a_step_costs_one_lambda_call_and_a_job_one_more(runner: JobRunner) -> None:
    """With the start of an execution, which AWS counts too: 6 for a Job of one task, 4 for a further step."""
    runner.define(*chain(3))
    runner.submit()
    assert runner.run()["state"] == "SUCCESS"
    assert operations(runner) == ["plan", "close", "close", "close"]
    assert transitions(runner) == (1, [3, 3, 3])


def test_messages_up_to_a_limit_need_no_map(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "sharding": 100}, {"stepName": "b", "sharding": 101})
    runner.submit()
    job = runner.run()
    assert [step["counts"] for step in job["steps"]] == [{"SUCCESS": 100}, {"SUCCESS": 101}]
    assert operations(runner, step=0) == ["close"]
    assert operations(runner, step=1) == ["enqueue", "close"]


@pytest.mark.parametrize("phase", [0, 1])
def test_a_call_opens_a_limited_number_of_steps(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch, phase: int
) -> None:
    """The executions of the others open them; each step still costs at most two calls."""
    monkeypatch.setattr(open_ahead, "MAX_OPENED", 2)
    runner.define({"stepName": "first"}, *({"stepName": f"s{n}", "phase": phase} for n in range(4)))
    runner.submit()
    assert runner.run()["state"] == "SUCCESS"
    calls = [operations(runner, step=n) for n in range(5)]
    assert sorted(calls) == [["close"]] * (5 - 2 - (phase == 0)) + [["open", "close"]] * (2 + (phase == 0))


def test_outputs_are_read_by_the_call_that_opens_the_step(runner: JobRunner) -> None:
    runner.define(
        {"stepName": "a"},
        {"stepName": "b", "dependentStep": "a", "items": "{{ steps.a.output }}"},
    )
    runner.submit()
    [lease] = runner.take(1)
    runner.worker.report([lease], output=["x", "y", "z"])
    assert [step["counts"] for step in runner.run()["steps"]] == [{"SUCCESS": 1}, {"SUCCESS": 3}]
    assert operations(runner, step=1) == ["close"]


def test_many_outputs_are_read_by_the_execution_of_the_step(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shardmill.engine.running.open_step.MAX_OUTPUTS_READ", 2)
    runner.define(
        {"stepName": "a", "sharding": 3},
        {"stepName": "b", "dependentStep": "a", "when": "{{ steps.a.output[0] == null }}"},
    )
    runner.submit()
    assert runner.run()["state"] == "SUCCESS"
    assert operations(runner, step=1) == ["open", "close"]


def test_a_step_that_cannot_be_opened_fails_alone(runner: JobRunner) -> None:
    runner.define(
        {"stepName": "a"},
        {"stepName": "b", "dependentStep": "a", "sharding": "{{ params.n }}"},
        {"stepName": "c", "dependentStep": "a"},
        params={"n": "many"},
    )
    runner.submit()
    runner.run()
    assert runner.states() == {"a": "SUCCESS", "b": "FAILED", "c": "SUCCESS"}


def test_an_error_while_a_step_is_opened_does_not_fail_the_step_before_it(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(open_ahead, "open_ahead", broken)
    runner.define(*chain(2))
    runner.submit()
    assert runner.run()["state"] == "SUCCESS"
    assert operations(runner) == ["plan", "open", "close", "open", "close"]


def test_a_skipped_step_releases_its_dependents(runner: JobRunner) -> None:
    runner.define(
        {"stepName": "a"},
        {"stepName": "b", "dependentStep": "a", "when": "{{ params.go == 1 }}"},
        {"stepName": "c", "dependentStep": "b", "runIfSkipped": True},
        params={"go": 0},
    )
    runner.submit()
    runner.run()
    assert runner.states() == {"a": "SUCCESS", "b": "SKIPPED", "c": "SUCCESS"}
