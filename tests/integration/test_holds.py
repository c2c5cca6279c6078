"""Suspending a definition, a worker group, or everything: nothing new begins, and nothing is lost."""

from __future__ import annotations

from typing import Any

import pytest

from integration.test_workers_api import register
from support.diary import Diary
from support.play import Play


def post(play: Play, path: str, body: Any = None, status: int = 200) -> Any:
    answer = play.cloud.http("POST", path, body)
    assert answer.status == status, answer
    return answer.json


def test_no_new_jobs_of_a_suspended_definition_start_and_those_that_run_go_on(play: Play) -> None:
    play.define({"stepName": "a", "sharding": 2})
    play.submit("t1")
    for _ in range(2):  # the same again changes nothing
        told = post(play, "/v1/definitions/play:suspend", {"reason": "a bad source"})
        assert told["suspended"].endswith(": a bad source")
    refused = play.cloud.http("POST", "/v1/jobs", {"jobName": "play", "trigger": "t2"})
    assert (refused.status, refused.json["code"]) == (409, "definition-suspended")
    assert "a bad source" in refused.json["detail"]
    again = play.cloud.http("POST", "/v1/jobs", {"jobName": "play", "trigger": "t1"})
    assert again.status == 200
    assert play.run()["state"] == "SUCCESS"
    play.define({"stepName": "a"})  # a new version is as suspended as the old one
    [listed] = play.cloud.http("GET", "/v1/definitions").json["items"]
    assert listed["suspended"]
    assert play.cloud.http("GET", "/v1/definitions/play").json["suspended"]
    assert post(play, "/v1/definitions/play:resume")["suspended"] is None
    play.submit("t2")
    assert play.run(trigger="t2")["state"] == "SUCCESS"


def test_a_definition_that_is_not_there_cannot_be_suspended(play: Play) -> None:
    assert post(play, "/v1/definitions/nope:suspend", status=404)["code"] == "definition-not-found"
    play.define({"stepName": "a"})
    post(play, "/v1/definitions/play:suspend")
    assert play.cloud.http("DELETE", "/v1/definitions/play").status == 204
    assert post(play, "/v1/definitions/play:resume", status=404)["code"] == "definition-not-found"
    play.define({"stepName": "a"})
    play.submit()  # one that is made anew begins anew


@pytest.mark.parametrize(
    ("catch_up", "outcomes"),
    [
        ("none", ["missed"]),
        ("latest", ["missed", "started"]),
        ("all", ["started", "started", "started"]),
    ],
)
def test_schedules_follow_their_catch_up_when_it_is_resumed(
    play: Play, catch_up: str, outcomes: list[str]
) -> None:
    play.define({"stepName": "a"})
    diary = Diary(play)
    diary.save("2026-01-01 00:00", cron="0 * * * *", catchUp=catch_up)
    post(play, "/v1/definitions/play:suspend")
    for hour in ("01", "02", "03"):
        assert diary.tick(f"2026-01-01 {hour}:00")["fired"] == 0
    assert diary.outcomes() == []
    post(play, "/v1/definitions/play:resume")
    diary.tick("2026-01-01 03:30")
    assert [outcome for _, outcome in diary.outcomes()] == outcomes


def test_a_parents_end_is_made_good_when_the_child_is_resumed(play: Play) -> None:
    play.define({"stepName": "a"})
    play.define({"stepName": "a"}, name="child", dependencies=[{"jobName": "play"}])
    post(play, "/v1/definitions/child:suspend")
    play.submit(dataTime="2026-01-01T00:00:00Z")
    play.run()
    play.tick(5)
    assert play.cloud.http("GET", "/v1/jobs?jobName=child").json["items"] == []
    post(play, "/v1/definitions/child:resume")
    play.tick(10)
    [child] = play.cloud.http("GET", "/v1/jobs?jobName=child").json["items"]
    assert child["dataTime"] == "2026-01-01T00:00:00.000Z"


def test_tasks_of_a_suspended_group_wait_and_its_running_ones_end(play: Play) -> None:
    play.define({"stepName": "a", "sharding": 4})
    play.submit()
    held = play.take(1)
    told = post(play, "/v1/groups/default:suspend", {"reason": "maintenance"})
    assert told["suspended"].endswith(": maintenance")
    for _ in range(3):
        assert play.hands.take() == []
    play.hands.report(held)
    assert play.step("a")["counts"] == {"SUCCESS": 1, "READY": 3}
    [reason] = play.job()["waitingFor"]
    assert "group default was suspended by" in reason
    assert "maintenance" in reason
    sentences = play.cloud.http("GET", "/v1/jobs/play/t1:explain").json["sentences"]
    assert any("group default was suspended by" in each for each in sentences)
    post(play, "/v1/groups/default:resume")
    play.later(10)
    assert play.run()["state"] == "SUCCESS"


def test_a_worker_all_of_whose_groups_are_suspended_is_told_to_rest(play: Play) -> None:
    play.cloud.http("PUT", "/v1/groups/other", {})
    worker = register(play, groups=["default", "other"])
    for name in ("default", "other"):
        assert not _beat(play, worker)["suspended"]
        post(play, f"/v1/groups/{name}:suspend")
    assert _beat(play, worker)["suspended"]
    refused = post(play, "/v1/work:lease", {"workerId": worker["id"]}, status=409)
    assert refused["code"] == "worker-suspended"
    assert "group default was suspended by" in refused["detail"]
    post(play, "/v1/groups/other:resume")
    assert not _beat(play, worker)["suspended"]
    assert post(play, "/v1/work:lease", {"workerId": worker["id"]})["items"] == []


def _beat(play: Play, worker: dict[str, Any]) -> dict[str, Any]:
    path = f"/v1/workers/{worker['id']}:heartbeat"
    told: dict[str, Any] = post(play, path, {"session": worker["session"]})
    return told


def test_a_step_of_two_groups_goes_on_in_the_one_that_works(play: Play) -> None:
    play.cloud.http("PUT", "/v1/groups/other", {})
    play.define({"stepName": "a", "sharding": 6, "workerGroups": ["default", "other"]})
    post(play, "/v1/groups/default:suspend")
    play.hands = type(play.hands)(play.mill, "both", ["default", "other"])
    play.submit()
    assert play.run()["state"] == "SUCCESS"


def test_everything_can_be_suspended_also_what_is_made_later(play: Play) -> None:
    post(play, "/v1/groups:suspend", {"reason": "fire drill"}, status=204)
    play.cloud.http("PUT", "/v1/groups/later", {})
    play.define({"stepName": "a", "workerGroup": "later"})
    play.define({"stepName": "a", "workerGroup": "lambda"}, name="quick")
    play.submit()
    play.submit(name="quick")
    play.hands = type(play.hands)(play.mill, "late", ["later"])
    play.cloud.run_until(lambda: play.states() == {"a": "READY"}, 10)
    for _ in range(3):
        assert play.hands.take() == []
        play.cloud.serve_lambda_lanes()
    assert play.job(name="quick")["state"] == "QUEUED"
    groups = play.cloud.http("GET", "/v1/groups").json["items"]
    assert {each["name"] for each in groups if "fire drill" in each["suspended"]} == {
        "default",
        "lambda",
        "later",
    }
    post(play, "/v1/groups:resume", status=204)
    play.later(10)
    assert play.run()["state"] == "SUCCESS"
    play.cloud.run_until(lambda: play.ended(name="quick"), 30, meanwhile=play.cloud.serve_lambda_lanes)


def test_a_group_that_is_not_there_cannot_be_suspended(play: Play) -> None:
    assert post(play, "/v1/groups/nope:suspend", status=404)["code"] == "group-not-found"
