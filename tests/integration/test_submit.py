"""One Job for each (jobName, trigger), by whatever way and however often it is asked for."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from shardmill.aws.clock import new_id
from shardmill.engine.jobs.submit import Submitted, submit
from shardmill.model.actor import Actor
from support.faults import Faults
from support.paths import PROJECT
from support.play import Play

EVENTS = sorted((PROJECT / "events").glob("*.json"))


def test_fifty_simultaneous_requests_make_one_job_and_one_execution(play: Play, faults: Faults) -> None:
    play.define({"stepName": "a"})
    request = {"jobName": "play", "trigger": "t1", "params": {"x": 1}}

    def ask(_: int) -> Submitted:
        return submit(play.mill, request, Actor("somebody"), now=play.hands.clock(), new_id=new_id)

    with ThreadPoolExecutor(25) as pool:
        answers = list(pool.map(ask, range(50)))
    assert sum(answer.new for answer in answers) == 1
    assert len({answer.job.id for answer in answers}) == 1
    assert len(play.cloud.executions("job")) == 1
    assert [job["trigger"] for job in play.cloud.http("GET", "/v1/jobs").json["items"]] == ["t1"]


def test_the_same_request_gives_the_same_job_and_other_content_is_refused(play: Play) -> None:
    play.define({"stepName": "a", "params": {"p": 1}})
    first = play.cloud.http(
        "POST", "/v1/jobs", {"jobName": "play", "trigger": "t", "params": {"a": 1, "b": 2}}
    )
    again = play.cloud.http(
        "POST", "/v1/jobs", {"params": {"b": 2, "a": 1}, "trigger": "t", "jobName": "play"}
    )
    other = play.cloud.http("POST", "/v1/jobs", {"jobName": "play", "trigger": "t", "params": {"a": 1}})
    assert (first.status, again.status, other.status) == (202, 200, 409)
    assert first.json["id"] == again.json["id"]
    assert other.json["code"] == "trigger-taken"
    assert first.headers["location"] == "/v1/jobs/play/t"


def test_a_job_keeps_the_version_it_started_with(play: Play) -> None:
    play.define({"stepName": "old", "sharding": 2})
    play.submit()
    play.cloud.run_until(lambda: play.job()["steps"])
    play.define({"stepName": "new"})
    assert play.run()["definitionVersion"] == 1
    assert play.states() == {"old": "SUCCESS"}
    play.submit("t2")
    play.run(trigger="t2")
    assert play.states("t2") == {"new": "SUCCESS"}


@pytest.mark.parametrize(
    ("request_", "status", "code", "pointers"),
    [
        ({"jobName": "nobody", "trigger": "t"}, 404, "definition-not-found", []),
        ({"jobName": "play"}, 422, "invalid-request", ["/trigger"]),
        ({"jobName": "play", "trigger": "a b"}, 422, "invalid-request", ["/trigger"]),
        ({"jobName": "1play", "trigger": "t"}, 422, "invalid-request", ["/jobName"]),
        (
            {"jobName": "play", "trigger": "t", "steps": [{"stepName": "zzz"}]},
            422,
            "invalid-request",
            ["/steps/0/stepName"],
        ),
        ({"jobName": "play", "trigger": "t", "prams": {}}, 422, "invalid-request", ["/prams"]),
        ([], 422, "invalid-request", [""]),
        ("text", 422, "invalid-request", [""]),
    ],
)
def test_bad_requests_name_the_field_and_change_nothing(
    play: Play, request_: Any, status: int, code: str, pointers: list[str]
) -> None:
    play.define({"stepName": "a"})
    answer = play.cloud.http("POST", "/v1/jobs", request_)
    assert (answer.status, answer.json["code"]) == (status, code)
    assert answer.headers["content-type"] == "application/problem+json"
    assert [fault["pointer"] for fault in answer.json.get("faults", [])] == pointers
    assert play.cloud.http("GET", "/v1/jobs").json["items"] == []


def test_a_job_whose_group_does_not_exist_is_refused(play: Play) -> None:
    play.define({"stepName": "a", "workerGroup": "nowhere"})
    answer = play.cloud.http("POST", "/v1/jobs", {"jobName": "play", "trigger": "t"})
    assert answer.status == 422
    assert answer.json["faults"][0]["code"] == "unknown-group"
    assert "nowhere" in answer.json["faults"][0]["message"]


@pytest.mark.parametrize("path", EVENTS, ids=lambda path: path.stem)
def test_every_sample_event_submits_a_job_once(play: Play, path: Path) -> None:
    play.define({"stepName": "generate_files"}, {"stepName": "merge_files"}, name="balance-report")
    event = json.loads(path.read_text())
    first, again = play.cloud.invoke("submit", event), play.cloud.invoke("submit", event)
    assert first["new"] is True
    if "detail" in event or "trigger" in event:
        assert (again["new"], again["job"]["id"]) == (False, first["job"]["id"])
    job = play.run(name="balance-report", trigger=first["job"]["trigger"])
    assert job["state"] == "SUCCESS"


def test_parameters_merge_from_the_general_to_the_special(play: Play) -> None:
    play.define(
        {
            "stepName": "a",
            "type": "shell",
            "content": "echo {{ params.x }} {{ params.y }} {{ params.z }}",
            "params": {"y": "step"},
        },
        params={"x": "job", "y": "job", "z": "job"},
    )
    play.submit(params={"x": "it's", "y": "req"}, steps=[{"stepName": "a", "params": {"z": "req step"}}])
    [lease] = play.take(1)
    assert lease.content == "echo 'it'\"'\"'s' step 'req step'"
    assert lease.environ["x"] == "it's"
    assert lease.environ["SHARDMILL_SHARD_TOTAL"] == "1"
    assert play.job()["params"] == {"x": "it's", "y": "req", "z": "job"}


def test_private_values_reach_the_worker_and_nobody_else(play: Play) -> None:
    command = {"name": "env", "environ": {"public": {"LANG": "C"}, "private": {"KEY": "s3cret"}}}
    play.define({"stepName": "a", "command": command})
    play.submit()
    [lease] = play.take(1)
    assert lease.environ["KEY"] == "s3cret"
    for path in (
        "/v1/definitions/play",
        "/v1/definitions",
        "/v1/jobs/play/t1",
        "/v1/jobs/play/t1/steps/a/tasks/0",
    ):
        assert "s3cret" not in json.dumps(play.cloud.http("GET", path).json)
    assert play.cloud.http("GET", "/v1/definitions/play").json["steps"][0]["command"]["hasPrivateEnv"] is True
