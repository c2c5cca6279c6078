"""Secrets that enter by the AWE protocol are found nowhere but with the client that holds the workunit."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from shardmill.api.routes import ROUTES
from support.moto.cloud import Cloud
from support.moto.moto_cloud import moto_cloud
from support.scenarios.awe.awe_calls import AweCalls, task
from support.scenarios.awe.node_client import BOUNDARY, multipart
from support.scenarios.job_runner import JobRunner
from support.scenarios.secret_search import recorded_answers, recorded_calls, rows_with, stored_elsewhere

PRIVATE, MISSPELT, AT_SUBMIT, LATER = (f"{entry}-s3cret" for entry in ("env", "fault", "submit", "settoken"))


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    with moto_cloud() as started:
        yield started


def submit(awe: AweCalls, private: object, token: str) -> dict[str, object]:
    command = {"name": "true", "args": "", "environ": {"private": private}}
    document = {"info": {"clientgroups": "docker", "auth": True}, "tasks": [task(cmd=command)]}
    body = multipart({"upload": ("upload", json.dumps(document).encode())})
    headers = {"authorization": f"OAuth {awe.token}", "datatoken": token}
    headers["content-type"] = f"multipart/form-data; boundary={BOUNDARY}"
    answer = awe.cloud.http("POST", "/awe/job", body, token=None, headers=headers)
    return {"status": answer.status, **(answer.json["data"] or {})}


def test_secrets_of_documents_and_data_tokens_reach_only_the_holder(
    runner: JobRunner, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    cloud = runner.cloud
    awe = AweCalls(cloud)
    with recorded_calls() as calls, recorded_answers() as answers:
        assert submit(awe, {"KEY": [MISSPELT]}, AT_SUBMIT)["status"] == 422
        job = str(submit(awe, {"KEY": PRIVATE}, AT_SUBMIT)["id"])
        client = awe.client("docker")
        work = client.take()
        path = f"/work/{work['id']}?privateenv&client={client.id}"
        assert PRIVATE in awe.send("GET", path).headers["privateenv"]
        path = f"/work/{work['id']}?datatoken&client={client.id}"
        assert awe.send("GET", path).headers["datatoken"] == AT_SUBMIT
        headers = {"authorization": f"OAuth {awe.token}", "datatoken": LATER}
        assert cloud.http("PUT", f"/awe/job/{job}?settoken", token=None, headers=headers).status == 200
        names = {"<job_id>": job, "<work_id>": work["id"], "<client_id>": client.id, "<name>": "docker"}
        for route in (each for each in ROUTES if each.awe and (each.method, each.scope) == ("GET", "read")):
            path = route.path
            for name, value in names.items():
                path = path.replace(name, str(value))
            assert cloud.http("GET", path).status == 200, path
        client.finish(work)
        awe.wait(job, "completed")
        cloud.deliver_job_ends()
    own = {f"/awe/work/{work['id']}?{what}&client={client.id}" for what in ("privateenv", "datatoken")}
    elsewhere, logged = stored_elsewhere(runner), "".join(capfd.readouterr()) + caplog.text
    for secret in (PRIVATE, MISSPELT, AT_SUBMIT, LATER):
        assert rows_with(runner, secret) == []
        assert secret not in elsewhere + logged
        assert {operation for operation, text in calls if secret in text} == set()
        assert {path for path, text in answers if secret in text} <= own
