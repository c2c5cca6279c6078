"""Documents of seed 000's system as its users wrote them, saved, requested and run."""

from __future__ import annotations

import json
from typing import Any

from support.scenarios.job_runner import JobRunner, fail_shards

DAG = json.loads("""
{
  "jobName": "nightly",
  "version": 1,
  "priority": 10,
  "uniqueAliveInstance": true,
  "duration": 300000,
  "params": {"k1": "v1", "k2": "v2", "last": "25"},
  "steps": [
    {"name": "prep", "stepType": "SIMPLE", "params": {"k1": "v11"}},
    {"stepName": "calc", "stepType": "SHARD", "shardConf": {"shard": 4, "maxTaskCount": 2},
     "dependentStep": "prep", "traits": ["CAN_FAIL", "archive"]},
    {"stepName": "pack", "stepType": "PACK", "dependency": {"steps": ["calc"]},
     "packConf": {"size": 10, "start": 0, "end": "{{ params.last }}", "startPackId": 1, "maxTaskCount": 6}},
    {"stepName": "mail", "dependentStep": "pack", "dependency": {"steps": ["calc"]}, "traits": ["ignorable"]},
    {"stepName": "clean", "dependency": {"phase": 1, "doneSteps": ["pack"]},
     "content": "clean {{ steps.calc.state }} {{ steps.calc.counts.FAILED }}"}
  ]
}
""")
REQUEST = json.loads("""
{
  "jobName": "nightly",
  "trigger": "20210104-05",
  "priority": 11,
  "params": {"k1": "v3"},
  "after": {"timestamp": 1609718400000},
  "steps": [
    {"stepName": "prep", "params": {"k1": "v4", "k2": "v5"}},
    {"name": "calc", "shardConf": {"shard": 6, "startShardId": 4}},
    {"stepName": "mail", "ignore": true}
  ]
}
""")


def _by_name(job: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {step["stepName"]: step for step in job["steps"]}


def test_a_definition_and_a_request_run_unchanged(runner: JobRunner) -> None:
    saved = runner.cloud.http("PUT", "/v1/definitions/nightly", DAG)
    assert saved.status == 201, saved.json
    steps = _by_name(saved.json)
    assert (saved.json["deadlineSeconds"], saved.json["uniqueAliveInstance"]) == (300, True)
    assert (steps["prep"]["stepType"], steps["prep"]["sharding"]) == ("SHARD", 1)
    assert (steps["calc"]["sharding"], steps["calc"]["maxTaskCount"]) == (4, 2)
    assert (steps["calc"]["canFail"], steps["mail"]["ignorable"]) == (True, True)
    assert (steps["pack"]["startShardId"], steps["pack"]["packConf"]["end"]) == (1, "{{ params.last }}")
    assert steps["mail"]["dependentSteps"] == ["pack", "calc"]
    assert (steps["clean"]["phase"], steps["clean"]["doneSteps"]) == (1, ["pack"])
    assert runner.cloud.http("PUT", "/v1/definitions/nightly", saved.json).status == 200

    accepted = runner.cloud.http("POST", "/v1/jobs", REQUEST)
    assert accepted.status == 202, accepted.json
    second = runner.cloud.http("POST", "/v1/jobs", {**REQUEST, "trigger": "20210105-05"})
    assert (second.status, second.json["code"]) == (409, "alive-instance")

    job = runner.run(fail_shards(5, step="calc"), trigger="20210104-05", name="nightly")
    found = _by_name(job)
    assert (job["state"], job["priority"], job["remainTasks"]) == ("SUCCESS", 11, 0)
    assert {name: step["state"] for name, step in found.items()} == {
        "prep": "SUCCESS",
        "calc": "TOLERATED",
        "pack": "SUCCESS",
        "mail": "SKIPPED",
        "clean": "SUCCESS",
    }
    assert found["prep"]["params"] == {"k1": "v4", "k2": "v5", "last": "25"}
    assert found["calc"]["counts"] == {"SUCCESS": 1, "FAILED": 1}
    packs = runner.step_tasks("pack", "20210104-05", "nightly")
    assert [(task["sharding"], task["pack"]) for task in packs] == [
        ({"total": 3, "index": 1}, {"start": 10, "end": 19}),
        ({"total": 3, "index": 2}, {"start": 20, "end": 25}),
    ]
    [clean] = [lease for lease in runner.leased if lease.step_name == "clean"]
    assert clean.content == "clean TOLERATED 1"
    assert runner.cloud.http("POST", "/v1/jobs", {**REQUEST, "trigger": "20210105-05"}).status == 202
