"""An AWE document beyond a limit leaves nothing: no definition, no version, no group, no job."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from support.moto.cloud import Cloud
from support.moto.moto_cloud import moto_cloud
from support.scenarios.application_use import used
from support.scenarios.awe.awe_calls import AweCalls, task


@pytest.fixture
def cloud(request: pytest.FixtureRequest) -> Iterator[Cloud]:
    with moto_cloud(parameters=request.param) as started:
        yield started


def names(cloud: Cloud) -> dict[str, Any]:
    definitions = cloud.http("GET", "/v1/definitions").json["items"]
    return {
        "definitions": {each["jobName"]: each["version"] for each in definitions},
        "groups": {each["name"] for each in cloud.http("GET", "/v1/groups").json["items"]},
        "jobs": {each["id"] for each in cloud.http("GET", "/v1/jobs").json["items"]},
    }


@pytest.mark.parametrize(
    ("cloud", "kind"),
    [
        ({"ApplicationJobs": "1"}, "live Jobs"),
        ({"ApplicationTasks": "3"}, "tasks of live Jobs"),
        ({"ApplicationDefinitions": "1"}, "definitions"),
    ],
    indirect=["cloud"],
    ids=lambda value: str(value),
)
def test_a_document_beyond_a_limit_changes_nothing(cloud: Cloud, kind: str) -> None:
    awe = AweCalls(cloud)
    awe.submit(task(), task("1"), name="first", pipeline="p", clientgroups="docker")
    before = names(cloud)
    documents: list[dict[str, Any]] = [{"name": "other", "pipeline": "q", "clientgroups": "new"}]
    if kind != "definitions":
        documents += [{"name": "first", "pipeline": "p", "clientgroups": "docker"}]
    for info in documents:
        upload = json.dumps({"info": info, "tasks": [task(), task("1")]}).encode()
        answer = awe.send("POST", "/job", upload=upload)
        assert (answer.status, kind in answer.text) == (409, True), answer
        assert names(cloud) == before
    assert used(cloud, "")["jobs"] == 1
