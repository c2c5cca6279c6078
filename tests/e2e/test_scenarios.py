"""The same scenarios on moto and the laptop cloud, with real state machines, handlers and programs."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from shardmill.aws.queues import Ticket
from support.laptop import Laptop
from support.moto.cloud import Cloud
from support.scenarios.stage import Stage, laptop_stage, moto_stage


@pytest.fixture(params=["moto", "laptop"])
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    if request.param == "moto":
        cloud: Cloud = request.getfixturevalue("cloud")
        with moto_stage(cloud) as started:
            yield started
    else:
        laptop: Laptop = request.getfixturevalue("laptop")
        yield laptop_stage(laptop)


def test_a_chain_runs_in_order(stage: Stage) -> None:
    stage.define(
        {"stepName": "a", "type": "shell", "content": "echo one"},
        {"stepName": "b", "dependentStep": "a", "command": {"name": "echo", "args": "two {{ shard.index }}"}},
        {"stepName": "c", "dependentStep": "b", "type": "python", "content": "platform:node"},
    )
    stage.submit()
    job = stage.finished()
    assert job["state"] == "SUCCESS"
    assert stage.step("a", "/tasks/0")["stdout"] == "one\n"
    assert stage.step("b", "/tasks/0")["stdout"] == "two 0\n"
    times = [(step["startedTime"], step["completedTime"]) for step in job["steps"]]
    assert times == sorted(times)
    assert all(end <= start for (_, end), (start, _) in pairwise(times))


def test_a_diamond_succeeds(stage: Stage) -> None:
    stage.define(
        {"stepName": "a"},
        {"stepName": "b", "dependentStep": "a", "sharding": 5},
        {"stepName": "c", "dependentStep": "a"},
        {"stepName": "d", "dependentSteps": ["b", "c"]},
    )
    stage.submit()
    job = stage.finished()
    assert set(stage.states(job).values()) == {"SUCCESS"}


def test_a_wide_step_runs_each_shard_once(stage: Stage) -> None:
    stage.define({"stepName": "wide", "sharding": 300, "maxTaskCount": 100})
    stage.submit()
    job = stage.finished()
    assert job["steps"][0]["counts"] == {"SUCCESS": 300}
    tasks = stage.step("wide", "/tasks?limit=1000")["items"]
    assert [task["sharding"]["index"] for task in tasks] == list(range(300))
    assert {task["attempt"] for task in tasks} == {1}


def test_tolerated_failures_let_a_step_succeed(stage: Stage) -> None:
    stage.define(
        {
            "stepName": "t",
            "type": "shell",
            "sharding": 10,
            "toleratedFailures": "10%",
            "content": "test {{ shard.index }} -ne 3 || { echo broken >&2; exit 7; }",
        }
    )
    stage.submit()
    job = stage.finished()
    assert job["state"] == "SUCCESS"
    assert job["steps"][0]["counts"] == {"SUCCESS": 9, "FAILED": 1}
    failed = stage.step("t", "/tasks/3")
    assert (failed["state"], failed["exitCode"], failed["stderr"]) == ("FAILED", 7, "broken\n")


def test_a_failed_step_is_tolerated_or_skips_its_dependents(stage: Stage) -> None:
    stage.define(
        {"stepName": "maybe", "type": "shell", "content": "exit 1", "canFail": True},
        {"stepName": "after", "dependentStep": "maybe"},
        {"stepName": "must", "type": "shell", "content": "exit 42"},
        {"stepName": "never", "dependentStep": "must"},
        {"stepName": "clean", "phase": 1},
    )
    stage.submit()
    job = stage.finished()
    assert job["state"] == "FAILED"
    assert stage.states(job) == {
        "maybe": "TOLERATED",
        "after": "SUCCESS",
        "must": "FAILED",
        "never": "SKIPPED",
        "clean": "SUCCESS",
    }
    assert job["lastFailed"] == f"{job['id']}_2_0"


def test_a_failed_task_is_retried(stage: Stage) -> None:
    stage.define(
        {"stepName": "r", "type": "shell", "content": 'test "$SHARDMILL_ATTEMPT" -ge 3'},
        failedRetries=2,
        failedInterval=1,
    )
    stage.submit()
    assert stage.finished()["state"] == "SUCCESS"
    task = stage.step("r", "/tasks/0")
    assert (task["attempt"], task["failed"]) == (3, 2)
    assert [attempt["exitCode"] for attempt in task["attempts"]] == [1, 1, 0]


def test_a_pack_step_has_ranges(stage: Stage) -> None:
    stage.define(
        {
            "stepName": "p",
            "type": "shell",
            "content": "echo {{ pack.start }}-{{ pack.end }}",
            "stepType": "PACK",
            "packConf": {"size": 3, "start": 1, "end": 7},
        }
    )
    stage.submit()
    assert stage.finished()["state"] == "SUCCESS"
    logs = [stage.step("p", f"/tasks/{index}/logs")["text"] for index in range(3)]
    assert logs == ["1-3\n", "4-6\n", "7-7\n"]


def test_fail_fast_kills_the_remaining_tasks(stage: Stage) -> None:
    stage.define(
        {
            "stepName": "f",
            "type": "shell",
            "sharding": 200,
            "maxTaskCount": 8,
            "failFast": True,
            "content": "test {{ shard.index }} -ne 2",
        }
    )
    stage.submit()
    job = stage.finished()
    counts = job["steps"][0]["counts"]
    assert job["state"] == "FAILED"
    assert counts["KILLED"] > 100
    assert sum(counts.values()) == 200


def test_a_timeout_kills_background_processes_too(stage: Stage) -> None:
    stage.define({"stepName": "slow", "type": "shell", "content": "sleep 60 & sleep 60", "timeoutSeconds": 1})
    stage.submit()
    assert stage.finished()["state"] == "FAILED"
    assert stage.step("slow", "/tasks/0")["reason"] == "timed-out"


def test_long_output_is_stored_and_its_end_is_in_the_task(stage: Stage) -> None:
    stage.define({"stepName": "big", "type": "shell", "content": "seq 1 300000"})
    stage.submit()
    assert stage.finished()["state"] == "SUCCESS"
    assert stage.step("big", "/tasks/0")["stdout"].endswith("299999\n300000\n")
    text, offset, complete = "", 0, False
    while not complete:
        page = stage.step("big", f"/tasks/0/logs?offset={offset}")
        text, offset, complete = text + page["text"], page["offset"], page["complete"]
    assert text == "".join(f"{n}\n" for n in range(1, 300_001))


def _lease(stage: Stage, worker: dict[str, Any], count: int) -> list[dict[str, Any]]:
    request = {"workerId": worker["id"], "max": 10, "waitSeconds": 1}
    held: list[dict[str, Any]] = []
    stage.until(
        lambda: held.extend(stage.call("POST", "/v1/work:lease", request)[1]["items"]) or held,
        lambda found: len(found) >= count,
    )
    return held


def _report(
    stage: Stage, worker: dict[str, Any], held: list[dict[str, Any]], outcome: str
) -> tuple[int, Any]:
    results = [
        {"taskId": h["taskId"], "attempt": h["attempt"], "receipt": h["receipt"], "outcome": outcome}
        for h in held
    ]
    return stage.call("POST", "/v1/work:report", {"workerId": worker["id"], "results": results})


def test_duplicate_messages_and_late_or_repeated_reports_have_no_effect(stage: Stage) -> None:
    group = f"g{stage.name}"
    assert stage.call("PUT", f"/v1/groups/{group}", {"leaseSeconds": 600})[0] == 201
    first, second = (
        stage.call("POST", "/v1/workers", {"name": f"{group}-{n}", "groups": [group]})[1] for n in (1, 2)
    )
    stage.define({"stepName": "a", "sharding": 2}, workerGroup=group)
    job = stage.submit()
    held = _lease(stage, first, 2)
    for rank in (0, 1):
        stage.sqs.send_message(
            QueueUrl=stage.lane(group), MessageBody=Ticket(job["id"], 1, 0, 1, rank).encode()
        )
    lease = {"workerId": second["id"], "max": 10, "waitSeconds": 1}
    assert stage.call("POST", "/v1/work:lease", lease)[1]["items"] == []
    status, answer = _report(stage, second, held[:1], "success")
    assert (status, answer["code"]) == (409, "foreign-attempt")
    assert _report(stage, first, held[:1], "success")[1]["items"][0]["status"] == "ok"
    assert _report(stage, first, held[:1], "success")[1]["items"][0]["status"] == "already"
    assert _report(stage, first, held[:1], "failed")[0] == 409
    back = {"taskId": held[1]["taskId"], "attempt": 1, "receipt": held[1]["receipt"]}
    assert stage.call("POST", "/v1/work:release", {"workerId": first["id"], "tasks": [back]})[0] == 200
    released = _lease(stage, second, 1)
    assert [task["attempt"] for task in released] == [2]
    assert _report(stage, first, held[1:], "failed-permanent")[0] == 409
    assert _report(stage, second, released, "success")[0] == 200
    done = stage.finished()
    assert done["state"] == "SUCCESS"
    assert done["steps"][0]["counts"] == {"SUCCESS": 2}
