"""Running Jobs again: what failed, all, certain steps and tasks, downstream; older runs stay readable."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from shardmill.engine.control import rerun
from shardmill.engine.errors import JobBusy
from shardmill.model.actor import Actor
from shardmill.store.rows import JobRow
from support.play import Play, fail_shards

CHAIN = (
    {"stepName": "a", "sharding": 3},
    {"stepName": "b", "sharding": 70, "dependentStep": "a"},
    {"stepName": "c", "dependentStep": "b"},
    {"stepName": "last", "phase": 1},
)


def act(play: Play, action: str, body: Any = None, status: int = 200) -> dict[str, Any]:
    answer = play.cloud.http("POST", f"/v1/jobs/play/t1:{action}", body)
    assert answer.status == status, answer
    told: dict[str, Any] = answer.json
    return told


def attempts(play: Play, step: str) -> list[int]:
    return [task["attempt"] for task in play.step_tasks(step)]


def failed(play: Play) -> dict[str, Any]:
    """A Job of which the tasks 3 and 69 of the second step failed."""
    play.define(*CHAIN)
    play.submit()
    job = play.run(fail_shards(3, 69, step="b"))
    assert (job["state"], play.states()["c"]) == ("FAILED", "SKIPPED")
    return job


def ran(play: Play) -> list[tuple[str, int]]:
    """The tasks that were leased since this was last asked."""
    tasks = sorted((lease.step_name, lease.sharding.index) for lease in play.leased)
    play.leased = []
    return tasks


def test_only_what_failed_runs_again(play: Play) -> None:
    failed(play)
    ran(play)
    told = act(play, "rerun", {"reason": "fixed it"})
    assert (told["state"], told["run"]) == ("INIT", 2)
    job = play.run()
    assert job["state"] == "SUCCESS"
    assert play.states() == {"a": "SUCCESS", "b": "SUCCESS", "c": "SUCCESS", "last": "SUCCESS"}
    assert ran(play) == [("b", 3), ("b", 69), ("c", 0)]
    assert [step["counts"] for step in job["steps"]] == [
        {"SUCCESS": 3},
        {"SUCCESS": 70},
        {"SUCCESS": 1},
        {"SUCCESS": 1},
    ]
    assert [attempt for attempt in attempts(play, "b") if attempt != 1] == [2, 2]
    task = play.task("b", 3)
    assert [(each["attempt"], each["outcome"]) for each in task["attempts"]] == [
        (1, "failed-permanent"),
        (2, "success"),
    ]


def test_earlier_runs_stay_readable(play: Play) -> None:
    failed(play)
    act(play, "rerun")
    play.run()
    old = play.cloud.http("GET", "/v1/jobs/play/t1?run=1").json
    assert [step["state"] for step in old["steps"]] == ["SUCCESS", "FAILED", "SKIPPED", "SUCCESS"]
    assert old["steps"][1]["counts"] == {"SUCCESS": 68, "FAILED": 2}
    tasks = play.cloud.http("GET", "/v1/jobs/play/t1/steps/b/tasks?run=1&state=FAILED").json["items"]
    assert [task["sharding"]["index"] for task in tasks] == [3, 69]
    assert play.cloud.http("GET", "/v1/jobs/play/t1?run=3").status == 404


def test_everything_runs_again(play: Play) -> None:
    failed(play)
    ran(play)
    act(play, "rerun", {"scope": "all"})
    assert play.run()["state"] == "SUCCESS"
    assert len(ran(play)) == 75
    assert set(attempts(play, "b")) == {2}


def test_named_tasks_run_again_and_what_succeeded_below_is_kept(play: Play) -> None:
    play.define(*CHAIN)
    play.submit()
    play.run()
    ran(play)
    act(play, "rerun", {"steps": ["b"], "shards": [1, 68]})
    assert play.run()["state"] == "SUCCESS"
    assert ran(play) == [("b", 1), ("b", 68)]
    assert play.job()["steps"][1]["counts"] == {"SUCCESS": 70}


def test_a_named_step_runs_again_with_what_it_had_spoiled(play: Play) -> None:
    failed(play)
    ran(play)
    act(play, "rerun", {"steps": ["a"]})
    job = play.run()
    assert job["state"] == "SUCCESS"
    assert ran(play) == [("a", 0), ("a", 1), ("a", 2), ("b", 3), ("b", 69), ("c", 0)]


def test_recompute_runs_a_step_and_everything_below_it(play: Play) -> None:
    play.define(*CHAIN)
    play.submit()
    play.run()
    ran(play)
    act(play, "recompute", {"stepName": "b"})
    assert play.run()["state"] == "SUCCESS"
    assert {name for name, _ in ran(play)} == {"b", "c"}
    assert act(play, "recompute", {"stepName": "x"}, status=404)["code"] == "step-not-found"


def test_a_rerun_can_fail_and_be_run_again(play: Play) -> None:
    failed(play)
    act(play, "rerun")
    assert play.run(fail_shards(3, step="b"))["state"] == "FAILED"
    act(play, "rerun")
    assert play.run()["state"] == "SUCCESS"
    assert (play.job()["run"], play.task("b", 3)["attempt"], play.task("b", 69)["attempt"]) == (3, 3, 2)
    assert play.task("a", 0)["state"] == "SUCCESS"


def test_a_killed_job_goes_on_where_it_was_killed(play: Play) -> None:
    play.define({"stepName": "a", "sharding": 20}, {"stepName": "b", "dependentStep": "a"})
    play.submit()
    held = play.take(10)
    play.hands.report(held[:4])
    act(play, "kill")
    ran(play)
    act(play, "rerun")
    assert play.run()["state"] == "SUCCESS"
    assert len(ran(play)) == 17
    assert {each.status for each in play.hands.report(held[4:])} == {"stale-attempt"}


def test_a_suspended_job_can_be_run_again(play: Play) -> None:
    play.define({"stepName": "a", "sharding": 3})
    play.submit()
    held = play.take(2)
    play.hands.report(held[:1])
    act(play, "suspend")
    act(play, "rerun")
    job = play.run()
    assert (job["state"], job["run"], job["steps"][0]["counts"]) == ("SUCCESS", 2, {"SUCCESS": 3})


def test_a_job_that_failed_and_was_suspended_is_resumed_where_it_failed(play: Play) -> None:
    play.define(*CHAIN, onFailure="suspend")
    play.submit()
    assert play.run(fail_shards(3, step="b"))["state"] == "SUSPENDED"
    assert act(play, "resume")["run"] == 2
    assert play.run()["state"] == "SUCCESS"
    assert {lease.step_name for lease in play.leased if lease.run == 2} == {"b", "c"}


def test_a_job_that_runs_is_not_run_again(play: Play) -> None:
    play.define({"stepName": "a"})
    play.submit()
    assert act(play, "rerun", status=409)["code"] == "job-not-ended"
    play.run()
    assert act(play, "rerun", status=409)["code"] == "conflict"


def test_many_that_rerun_at_once_make_one_run(play: Play) -> None:
    failed(play)
    job = play.mill.jobs.find("play", "t1")
    assert job is not None

    def again(_: int) -> JobRow | None:
        try:
            return rerun.rerun(play.mill, job, rerun.Scope(), Actor("me"), "", play.hands.clock())
        except JobBusy:
            return None

    with ThreadPoolExecutor(6) as pool:
        made = [each for each in pool.map(again, range(6)) if each]
    assert [each.run for each in made] == [2]
    assert play.run()["state"] == "SUCCESS"
    assert len(play.cloud.executions("job")) == 2


def test_a_plan_that_is_repeated_does_not_undo_what_has_run_since(play: Play) -> None:
    from shardmill.engine.jobs.plan import plan

    failed(play)
    act(play, "rerun")
    play.cloud.run_until(lambda: play.states().get("b") == "READY")
    held = play.take(2)
    play.hands.report(held)
    job = play.mill.jobs.find("play", "t1")
    assert job is not None
    plan(play.mill, job.id, job.run, play.hands.clock())
    assert play.run()["state"] == "SUCCESS"
    assert play.job()["steps"][1]["counts"] == {"SUCCESS": 70}


def test_the_history_has_every_run(play: Play) -> None:
    failed(play)
    act(play, "rerun", {"reason": "fixed it"})
    play.run()
    items = play.cloud.http("GET", "/v1/jobs/play/t1/history").json["items"]
    [again] = [each for each in items if each["state"] == "INIT" and each["reason"] == "fixed it"]
    assert again["actor"] == "admin"
    assert {each["run"] for each in items if each["stepName"] == "b"} == {1, 2}


@pytest.mark.parametrize(
    ("wish", "code"),
    [
        ({"scope": "all", "steps": ["a"]}, "both-spellings"),
        ({"shards": [1]}, "missing-field"),
        ({"steps": ["a", "b"], "shards": [1]}, "missing-field"),
        ({"scope": "some"}, "bad-value"),
    ],
    ids=str,
)
def test_nonsense_is_refused(play: Play, wish: Any, code: str) -> None:
    play.define({"stepName": "a"})
    play.submit()
    assert [each["code"] for each in act(play, "rerun", wish, status=422)["faults"]] == [code]
