"""Fields of documents that clients need as they were submitted."""

from __future__ import annotations

import json
import shlex
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


IDS = ["a.b c", "sort/reads", "t" * 70, "t" * 200, "12345678", "task_0", "\u00fc\u00df", "x,y"]


@pytest.mark.parametrize("given", IDS)
def test_ids_of_tasks_are_answered_as_they_were_submitted(awe: AweCalls, given: str) -> None:
    client = awe.client()
    second = task("next", dependsOn=[given], inputs={"o": {"origin": given}})
    submitted = awe.submit(task(given, outputs={"o": {}}), second, clientgroups="docker")
    first, second = awe.job(submitted["id"])["tasks"]
    assert (first["taskid"], second["taskid"]) == (given, "next")
    assert second["inputs"][0]["origin"] == given
    assert second["dependsOn"] == [first["id"]]
    assert len(first["id"]) <= 36 + 1 + 150
    if given not in ("a.b c", "sort/reads", "t" * 200, "x,y"):
        assert first["id"] == f"{submitted['id']}_{given}"
    work = client.take()
    assert work["id"] == work["wuid"] == f"{first['id']}_0" == f"{work['jobid']}_{work['task_name']}_0"
    assert not set("/?#%, ") & set(work["id"]), "clients put it into addresses and lists"
    assert client.beat_with(work["id"]).get("discard") is None
    awe.data("PUT", f"/node/{work['outputs'][0]['node']}", upload=b"x")
    client.finish(work)
    assert client.take()["id"] == f"{submitted['id']}_next_0"
    assert awe.data("GET", f"/work/{work['id']}")["state"] == "completed"
    minimal = awe.data("GET", "/job?verbosity=minimal")[0]["tasks"]
    assert minimal == {given: "completed", "next": "in-progress"}


def test_similar_ids_of_tasks_are_different_tasks(awe: AweCalls) -> None:
    names = ["a b", "a.b", "a-b", "a-b-2", "0", "task_0", "t" * 64, "t" * 65]
    job = awe.submit(*map(task, names), clientgroups="docker")
    assert [each["taskid"] for each in job["tasks"]] == names
    assert len({each["id"] for each in job["tasks"]}) == len(names)
    client = awe.client()
    works = [client.take() for _ in names]
    assert len({work["id"] for work in works}) == len(names)
    for work in works:
        client.finish(work)
    awe.wait(job["id"], "completed")
    assert awe.data("PUT", f"/job/{job['id']}?recompute=a%20b").startswith("job recompute started")
    assert client.take()["id"] == next(each["id"] for each in job["tasks"] if each["taskid"] == "a b") + "_0"


def test_ids_of_tasks_that_cannot_be_stored(awe: AweCalls) -> None:
    for given, fault in (("x" * 1_001, "tasks[0].taskid: must have at most 1000"), ("\ud800", "")):
        document = json.dumps({"info": {}, "tasks": [task(given)]}).encode()
        assert fault in awe.error("POST", "/job", upload=document)


def test_partinfo_of_a_task_that_is_not_split(awe: AweCalls) -> None:
    parts = {"input": "x", "index": "record", "maxpartsize_mb": 0, "options": "o"}
    inputs = {"x": {"url": "http://d/x"}}
    job = awe.submit(task(inputs=inputs, partinfo=parts, totalwork=1), task("1"), clientgroups="docker")
    assert job["tasks"][0]["partinfo"] == {**parts, "totalindex": 0}
    assert job["tasks"][1]["partinfo"] is None
    work = awe.client().take()
    assert (work["rank"], work["part"]) == (0, None)


def test_a_split_by_an_input_that_the_task_does_not_have(awe: AweCalls) -> None:
    inputs = {name: {"url": f"http://d/{name}"} for name in ("a", "b")}
    split = task(inputs=inputs, partinfo={"input": "c"}, totalwork=4)
    fault = awe.error("POST", "/job", upload=json.dumps({"info": {}, "tasks": [split]}).encode())
    assert fault == "tasks[0].partinfo.input: the task has no input 'c'; its inputs: 'a', 'b'"


@pytest.mark.parametrize("args", ["-x ${{x}}", '"${{x}}" $${{y}}', "'${{x}}' {{z}}", "--f={{a}}${HOME}"])
def test_braces_in_arguments_are_what_they_are(awe: AweCalls, args: str) -> None:
    client = awe.client()
    job = awe.submit(task(cmd={"name": "t", "args": args}), clientgroups="docker")
    assert job["tasks"][0]["cmd"]["args"] == args
    assert shlex.split(client.take()["cmd"]["args"]) == shlex.split(args)


def test_braces_in_the_words_of_arguments(awe: AweCalls) -> None:
    words = ["${{x}}", "`{{y}}`"]
    awe.submit(task(cmd={"name": "t", "args_array": words}), clientgroups="docker")
    assert awe.client().take()["cmd"]["args_array"] == words


def test_braces_where_a_shell_would_read_more_are_a_fault_of_the_document(awe: AweCalls) -> None:
    document = {"info": {}, "tasks": [task(cmd={"name": "t", "args": "`{{x}}`"})]}
    fault = awe.error("POST", "/job", upload=json.dumps(document).encode())
    assert fault.startswith("tasks[0].cmd.args: {{ cannot stand inside")
