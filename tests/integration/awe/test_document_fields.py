"""Fields of documents that clients need as they were submitted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.moto.cloud import Cloud
from support.scenarios.awe.awe_calls import AweCalls, task


@pytest.fixture
def awe(cloud: Cloud) -> AweCalls:
    return AweCalls(cloud)


@pytest.mark.parametrize("given", ["default", "default,lab", "lab", "big.mem,a b", ""])
def test_groups_are_answered_as_they_were_submitted(awe: AweCalls, given: str) -> None:
    job = awe.submit(task(), clientgroups=given)
    assert job["info"]["clientgroups"] == given
    assert awe.job(job["id"])["info"]["clientgroups"] == given
    [listed] = awe.data("GET", "/job?verbosity=minimal")
    assert listed["clientgroups"] == given


def test_the_group_of_a_job_is_changed_to_the_default(awe: AweCalls) -> None:
    job = awe.submit(task())["id"]
    awe.data("PUT", f"/job/{job}?clientgroup=default")
    assert awe.job(job)["info"]["clientgroups"] == "default"


def test_attributes_of_a_task_come_before_those_of_the_job(awe: AweCalls) -> None:
    client = awe.client()
    attributes = {"stage": "1", "reads": 7, "paired": True, "more": {"a": [1]}}
    document = task(userattr={"stage": "2"})
    job = awe.submit(document, clientgroups="docker", userattr=attributes)
    assert job["tasks"][0]["userattr"] == {"stage": "2"}
    work = client.take()
    assert work["userattr"] == {"stage": "2", "reads": "7", "paired": "true", "more": '{"a": [1]}'}
    assert work["info"]["userattr"]["stage"] == "1"


def test_a_list_of_arguments_is_also_a_text_for_clients_that_read_only_that(awe: AweCalls) -> None:
    client = awe.client()
    words = ["-a", "two words", "-i=@in", "me@host"]
    command = {"name": "tool", "args_array": words}
    awe.submit(task(cmd=command, inputs={"in": {"url": "http://d/in"}}), clientgroups="docker")
    found = client.take()["cmd"]
    assert found["args_array"] == words
    assert found["args"] == "-a 'two words' -i=@in me@host"


def test_output_directories_and_input_attributes_reach_the_client(awe: AweCalls) -> None:
    client = awe.client()
    first = task(outputs={"out": {"host": "h", "directory": "sub/dir"}})
    second = task("1", inputs={"out": {"host": "h", "origin": "0", "attrfile": "attributes.json"}})
    awe.submit(first, second, clientgroups="docker")
    work = client.take()
    [output] = work["outputs"]
    assert (output["filename"], output["name"], output["directory"]) == ("out", "out", "sub/dir")
    assert output["shockfilename"] == ""
    form = {"upload": b"result", "attributes": b'{"quality": 7}'}
    awe.data("PUT", f"/node/{output['node']}", **form)
    client.finish(work)
    [read] = client.take()["inputs"]
    assert (read["filename"], read["attrfile"], read["node"]) == ("out", "attributes.json", output["node"])
    answer = awe.cloud.http(
        "GET", f"/node/{read['node']}", token=None, headers={"authorization": f"OAuth {awe.token}"}
    )
    assert (answer.status, answer.json["data"]["attributes"]) == (200, {"quality": 7})


@pytest.mark.parametrize(
    ("file", "fault"),
    [
        ({"type": "copy"}, "tasks[0].outputs.o.type: 'copy' is not supported"),
        ({"nofile": True}, "tasks[0].outputs.o.nofile: is not supported"),
        ({"uncompress": "gzip"}, "tasks[0].outputs.o.uncompress: is not supported"),
        ({"directory": "../x"}, "tasks[0].outputs.o.directory: must be a relative path"),
    ],
)
def test_a_document_that_would_run_with_other_files_is_rejected(
    awe: AweCalls, file: dict[str, Any], fault: str
) -> None:
    document = {"info": {}, "tasks": [task(outputs={"o": file})]}
    assert fault in awe.error("POST", "/job", upload=json.dumps(document).encode())
