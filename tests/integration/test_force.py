"""Forcing tasks, steps and Jobs to an end that somebody vouches for."""

from __future__ import annotations

from typing import Any

from support.play import Play, fail_shards


def force(
    play: Play, state: str, status: int = 200, trigger: str = "t1", name: str = "play", **wish: Any
) -> Any:
    answer = play.cloud.http("POST", f"/v1/jobs/{name}/{trigger}:force", {"state": state, **wish})
    assert answer.status == status, answer
    return answer.json


def test_a_failed_job_forced_to_success_starts_its_children(play: Play) -> None:
    play.define({"stepName": "a"}, name="parent")
    play.define({"stepName": "a"}, name="child", dependencies=["parent"])
    play.submit("t1", "parent", dataTime="2026-01-05T00:00:00Z")
    play.run(fail_shards(0), name="parent")
    play.cloud.tell_dependency()
    assert play.cloud.http("GET", "/v1/jobs?jobName=child").json["items"] == []
    told = force(play, "SUCCESS", name="parent", reason="checked by hand")
    assert (told["state"], told["notes"]) == ("SUCCESS", "forced to SUCCESS by admin: checked by hand")
    play.cloud.tell_dependency()
    assert play.run(trigger="20260105T000000Z", name="child")["state"] == "SUCCESS"


def test_a_running_job_is_ended_as_said(play: Play) -> None:
    play.define({"stepName": "a", "sharding": 3}, {"stepName": "b", "dependentStep": "a"})
    play.submit()
    held = play.take(2)
    play.hands.report(held[:1])
    assert force(play, "FAILED")["state"] == "FAILED"
    assert play.states() == {"a": "KILLED", "b": "KILLED"}
    assert play.hands.beat(held[1:]) == [held[1].task_id]
    assert play.cloud.executions(status="RUNNING") == []
    assert force(play, "FAILED")["state"] == "FAILED"
    assert force(play, "SUCCESS")["state"] == "SUCCESS"


def test_a_forced_step_lets_what_depends_on_it_go_on(play: Play) -> None:
    play.define({"stepName": "a", "sharding": 3}, {"stepName": "b", "dependentStep": "a"})
    play.submit()
    held = play.take(1)
    force(play, "SUCCESS", stepName="a", reason="done elsewhere")
    assert [each.status for each in play.hands.report(held)] == ["stale-attempt"]
    job = play.run()
    assert (job["state"], play.states()) == ("SUCCESS", {"a": "SUCCESS", "b": "SUCCESS"})
    assert job["steps"][0]["counts"] == {"KILLED": 3}
    items = play.cloud.http("GET", "/v1/jobs/play/t1/history").json["items"]
    [forced] = [each for each in items if each["stepName"] == "a" and each["state"] == "SUCCESS"]
    assert (forced["actor"], forced["reason"]) == ("admin", "forced to SUCCESS by admin: done elsewhere")


def test_a_step_forced_to_fail_spoils_what_depends_on_it(play: Play) -> None:
    play.define({"stepName": "a"}, {"stepName": "b", "dependentStep": "a"})
    play.submit()
    play.cloud.run_until(lambda: play.job()["steps"] and play.row(0).token)
    force(play, "FAILED", stepName="a")
    assert (play.run()["state"], play.states()["b"]) == ("FAILED", "SKIPPED")


def test_tasks_are_forced_one_by_one(play: Play) -> None:
    play.define({"stepName": "a", "sharding": 3, "failedRetries": 3, "failedInterval": 3600})
    play.submit()
    held = play.take(2)
    force(play, "SUCCESS", stepName="a", index=held[0].sharding.index)
    assert [each.status for each in play.hands.report(held[:1], "failed")] == ["stale-attempt"]
    play.hands.report(held[1:], "failed")
    force(play, "SUCCESS", stepName="a", index=held[1].sharding.index, reason="known")
    task = play.task("a", held[1].sharding.index)
    assert (task["state"], task["attempts"][-1]["reason"]) == ("SUCCESS", "forced")
    left = ({0, 1, 2} - {lease.sharding.index for lease in held}).pop()
    force(play, "SUCCESS", stepName="a", index=left)
    assert play.run()["state"] == "SUCCESS"
    assert play.job()["steps"][0]["counts"] == {"SUCCESS": 3}
    assert force(play, "FAILED", 409, stepName="a", index=left)["code"] == "step-ended"


def test_nonsense_is_refused(play: Play) -> None:
    play.define({"stepName": "a"})
    play.submit()
    assert force(play, "KILLED", 422)["faults"][0]["pointer"] == "/state"
    assert force(play, "SUCCESS", 422, index=1)["faults"][0]["code"] == "missing-field"
    assert force(play, "SUCCESS", 404, stepName="x")["code"] == "step-not-found"
    play.run()
    assert force(play, "SUCCESS", 409, stepName="a")["code"] == "job-ended"
