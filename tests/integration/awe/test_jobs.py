"""Documents become Jobs of the engine, and the documents of jobs say what the engine knows."""

import json
from typing import Any

import pytest

from support.moto.cloud import Cloud
from support.scenarios.awe.awe_calls import AweCalls
from support.scenarios.awe.node_client import BOUNDARY, multipart

MULTIPART = {"content-type": f"multipart/form-data; boundary={BOUNDARY}"}


def task(name: str = "0", **more: Any) -> dict[str, Any]:
    return {"taskid": name, "cmd": {"name": "true", "args": "-x @a ${HOME} {{x}}"}, **more}


def post(cloud: Cloud, *tasks: dict[str, Any], **info: Any) -> Any:
    document = {"info": info, "tasks": list(tasks)}
    body = multipart({"upload": ("job.json", json.dumps(document).encode())})
    return cloud.http("POST", "/awe/job", body, headers=MULTIPART)


def submitted(cloud: Cloud, *tasks: dict[str, Any], **info: Any) -> Any:
    answer = post(cloud, *tasks, **info)
    assert answer.status == 200, answer
    return answer.json["data"]


def test_a_document_becomes_a_job(cloud: Cloud) -> None:
    job = submitted(
        cloud,
        task(outputs={"a": {"host": "http://shock:7445"}}),
        task("1", inputs={"a": {"origin": "0"}}, dependsOn=["0"]),
        name="n",
        pipeline="p",
        clientgroups="docker",
        priority=5,
        userattr={"k": "v"},
    )
    assert (
        job["info"] | {"name": "n", "pipeline": "p", "clientgroups": "docker", "priority": 5} == job["info"]
    )
    assert job["info"]["userattr"] == {"k": "v"}
    assert int(job["jid"]) > 0
    assert job["registered"] is True
    assert job["remaintasks"] == 2
    first, second = cloud.http("GET", f"/awe/job/{job['id']}").json["data"]["tasks"]
    assert first["id"] == f"{job['id']}_0"
    assert first["cmd"]["args"] == "-x @a ${HOME} {{x}}"
    assert (first["totalwork"], first["remainwork"]) == (1, 1)
    node = first["outputs"][0]["node"]
    assert node == f"{job['id']}_0_0"
    assert second["inputs"][0]["node"] == node
    assert second["inputs"][0]["origin"] == "0"
    assert second["dependsOn"] == [f"{job['id']}_0"]
    assert second["state"] == "pending"
    v1 = cloud.http("GET", f"/v1/jobs/{job['definition']}/{job['trigger']}").json
    assert v1["id"] == job["id"]


@pytest.mark.parametrize("field", ["cwl", "upload"])
def test_cwl_is_rejected_by_name(cloud: Cloud, field: str) -> None:
    content = b"cwlVersion: v1.0\nclass: Workflow\n"
    answer = AweCalls(cloud).error("POST", "/job", **{field: content})
    assert "CWL documents are not supported" in answer


def test_a_plain_json_body_is_accepted(cloud: Cloud) -> None:
    answer = cloud.http("POST", "/awe/job/", {"info": {"name": "x"}, "tasks": [task()]})
    assert answer.json["data"]["info"]["name"] == "x"


@pytest.mark.parametrize(
    ("tasks", "text"),
    [
        ([task(inputs={"a": {"origin": "9"}})], "there is no task '9'"),
        ([task("0"), task("1", inputs={"b": {"origin": "0"}})], "does not produce 'b'"),
        ([task("0", dependsOn=["1"]), task("1", dependsOn=["0"])], "cycle"),
        ([task("0"), task("0")], "used twice"),
        ([{"taskid": "0", "cmd": {"name": "#jobname"}}], "#jobname"),
        ([], "at least one task"),
        ([task("1"), task("0", cmd={"name": "a\0"})], "task 0.cmd.name: contains a NUL"),
    ],
)
def test_faults_of_documents_are_named(cloud: Cloud, tasks: list[dict[str, Any]], text: str) -> None:
    answer = post(cloud, *tasks)
    assert 400 <= answer.status < 500
    assert answer.json["status"] == answer.status
    assert text in "; ".join(answer.json["error"])
