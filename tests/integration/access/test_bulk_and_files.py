"""Many jobs in one request, and files: hidden items are reported as missing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import pytest

from shardmill.api import dry_run
from support.moto.cloud import Cloud
from support.moto.moto_cloud import moto_cloud
from support.scenarios.access import Caller, Callers
from support.scenarios.file_worker import place
from support.scenarios.job_runner import JobRunner

LIMITS = [{"definitions": ["own-*"]}, {"applications": ["finance"]}, {"groups": ["default"]}]
BODIES: dict[str, dict[str, Any]] = {
    "recompute": {"stepName": "a"},
    "force": {"state": "SUCCESS"},
    "priority": {"priority": 3},
    "group": {"workerGroups": ["default"]},
    "change": {"priority": 3},
    "rerun": {"scope": "all", "dependents": True},
    "delete": {"full": True},
}


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    with moto_cloud() as started:
        started.http("PUT", "/v1/groups/vault", {})
        runner = JobRunner(started)
        runner.define({"stepName": "a", "content": "x"}, name="own-report", appName="finance")
        runner.define(
            {"stepName": "a", "content": "x", "inputs": [{"name": "in.txt"}]},
            name="own-load",
            appName="finance",
        )
        runner.define({"stepName": "a", "content": "x"}, name="secret", appName="hr", workerGroup="vault")
        for name in ("own-report", "secret"):
            runner.submit(name=name)
        yield started


@pytest.fixture(scope="module")
def callers(cloud: Cloud) -> Callers:
    return Callers(cloud)


def tried(caller: Caller, action: str, name: str) -> dict[str, Any]:
    """The item of a job in a dry run, under the name of a job that does not exist."""
    jobs = [{"jobName": "own-report", "trigger": "t1"}, {"jobName": name, "trigger": "t1"}]
    body = {"action": action, "jobs": jobs, "request": BODIES.get(action, {})}
    answer = caller("POST", "/v1/jobs:dry-run", body)
    assert answer.status == 200, answer
    item: dict[str, Any] = answer.json["items"][1]
    return item


@pytest.mark.parametrize("limit", LIMITS, ids=str)
@pytest.mark.parametrize("action", sorted(dry_run._BODIES))
def test_a_dry_run_of_many_jobs_reports_hidden_jobs_as_missing(
    callers: Callers, action: str, limit: dict[str, Any]
) -> None:
    caller = callers.with_scopes({"scope": "read", **limit}, {"scope": "operate", **limit})
    hidden, missing = (tried(caller, action, name) for name in ("secret", "absent"))
    assert (hidden["status"], hidden["problem"]["code"]) == (404, "job-not-found")
    assert str(hidden).replace("secret", "absent") == str(missing)
    reader = callers.with_scopes("read", {"scope": "operate", **limit})
    assert tried(reader, action, "secret")["problem"]["code"] == "forbidden"


def test_the_upload_of_another_user_is_reported_as_missing(cloud: Cloud, callers: Callers) -> None:
    eve, bob = (callers.with_scopes("submit", "read", owner=owner) for owner in ("eve", "bob"))
    data = b"salaries"
    wanted = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    made = bob("POST", "/v1/uploads", wanted).json
    cloud.clients.s3.put_object(**place(made["url"]), Body=data)
    assert bob("POST", "/v1/uploads", wanted).json["present"] is True
    assert eve("POST", "/v1/uploads", wanted).json["present"] is False

    def submit(caller: Caller, upload: str) -> Any:
        files = [{"name": "in.txt", "upload": upload, "size": len(data)}]
        return caller("POST", "/v1/jobs", {"jobName": "own-load", "trigger": "t1", "files": files})

    unknown = made["upload"][:17] + "0" * 64
    answers = [submit(eve, upload) for upload in (made["upload"], unknown)]
    assert [each.json["faults"][0]["code"] for each in answers] == ["unknown-upload"] * 2
    assert answers[0].text == answers[1].text
    assert cloud.http("GET", "/v1/jobs/own-load/t1").status == 404
    assert submit(bob, made["upload"]).status == 202
