"""Notes and errors name jobs, tasks and workunits by their ids, in the words of the protocol."""

from __future__ import annotations

import pytest

from support.moto.cloud import Cloud
from support.scenarios.awe.awe_calls import AweCalls, task
from support.scenarios.awe.node_client import NodeClient

HOST = "http://test.execute-api.us-east-1.amazonaws.com/awe"


@pytest.fixture
def awe(cloud: Cloud) -> AweCalls:
    return AweCalls(cloud)


def test_notes_name_the_task_and_the_workunit(awe: AweCalls) -> None:
    client = awe.client()
    job = awe.submit(task(), task("b", dependsOn=["0"]), clientgroups="docker", noretry=True)["id"]
    client.finish(client.take())
    reason = b"step task_0: 3 of 4 things failed"
    client.finish(client.take(), "fail", worknotes=reason)
    found = awe.wait(job, "suspend")
    said = f"1 of 1 workunits failed; the first was workunit {job}_b_0: {reason.decode()}"
    assert found["notes"] == f"task {job}_b: {said}"
    assert found["tasks"][1]["notes"] == said
    assert awe.data("GET", f"/job/{job}?report")["notes"] == found["notes"]
    assert awe.data("GET", "/job?verbosity=minimal")[0]["notes"] == found["notes"]


def test_notes_of_a_split_name_the_rank_that_failed(awe: AweCalls) -> None:
    client = awe.client()
    node = NodeClient(awe.cloud).upload(b"a\nb\nc\n")["id"]
    split = {"partinfo": {"input": "x", "index": "line"}, "totalwork": 3}
    first = task(inputs={"x": {"host": HOST, "node": node}}, **split)
    job = awe.submit(first, clientgroups="docker", noretry=True)["id"]
    works = {work["rank"]: work for work in (client.take() for _ in range(3))}
    client.finish(works[1])
    client.finish(works[2], "fail", worknotes=b"broken")
    client.beat_with(works[2]["id"], works[3]["id"])
    client.report(works[3], "fail")
    notes = awe.wait(job, "suspend")["notes"]
    assert f"the first was workunit {job}_0_2: broken" in notes
    assert "workunits failed" in notes
    assert "step" not in notes


def test_errors_name_the_job_by_its_id_and_its_state_by_the_word_of_the_protocol(awe: AweCalls) -> None:
    client = awe.client()
    job = awe.submit(task(), clientgroups="docker")["id"]
    work = client.take()

    def error(query: str, status: int = 409) -> str:
        answer = awe.send("PUT", f"/job/{job}?{query}")
        assert answer.status == status, answer
        return str(answer.json["error"][0])

    running = "its state is in-progress; suspend it first"
    assert error("resubmit") == f"job {job} cannot be resubmitted, {running}"
    assert error("recompute=0") == f"job {job} cannot be recomputed, {running}"
    client.finish(work)
    awe.wait(job, "completed")
    done = "its state is completed"
    assert error("suspend") == f"job {job} cannot be suspended, {done}"
    assert error("resume") == f"job {job} cannot be resumed, {done}; use recover, recompute or resubmit"
    assert error("priority=3") == error("clientgroup=red") == f"job {job} cannot be changed, {done}"


def test_errors_of_client_groups(awe: AweCalls) -> None:
    missing = "client group not found: none; create it with POST /cgroup/{name}"
    for method, path in (("GET", ""), ("DELETE", ""), ("PUT", "/token"), ("DELETE", "/token")):
        assert awe.error(method, f"/cgroup/none{path}") == missing
    awe.submit(task(), clientgroups="used")
    assert awe.error("DELETE", "/cgroup/used").startswith("client group used is used by jobs that have not")


def test_a_late_upload_names_its_node(awe: AweCalls) -> None:
    client = awe.client()
    awe.submit(task(outputs={"o": {}}), clientgroups="docker")
    work = client.take()
    node = work["outputs"][0]["node"]
    client.finish(work, "failed-permanent")
    error = awe.error("PUT", f"/node/{node}", upload=b"late")
    assert error == f"the workunit of node {node} is not running; its outputs cannot be stored"
