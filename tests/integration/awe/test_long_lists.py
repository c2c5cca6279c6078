"""Lists and reports with more entries than one answer has."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shardmill.api.awe import envelope, lists
from shardmill.engine.awe import job_lists, logs, work_lists
from support.aws_rules.faults import Faults
from support.moto.cloud import Cloud
from support.scenarios.awe.awe_calls import AweCalls, task
from support.scenarios.awe.node_client import NodeClient

HOST = "http://test.execute-api.us-east-1.amazonaws.com/awe"


@pytest.fixture
def awe(cloud: Cloud) -> AweCalls:
    return AweCalls(cloud)


def page(awe: AweCalls, path: str) -> tuple[list[Any], int, str]:
    answer = awe.send("GET", path).json
    return answer["data"], answer["total_count"], answer.get("note", "")


def document(*tasks: dict[str, Any]) -> bytes:
    return json.dumps({"info": {"clientgroups": "docker"}, "tasks": tasks}).encode()


def test_jobs_beyond_the_limit_are_listed_and_counted(
    awe: AweCalls, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_lists, "MAX_SCANNED", 2)
    ids = [awe.submit(task(), name=f"n{at}", clientgroups="docker")["id"] for at in range(5)]
    for each in ids:
        awe.wait(each, "queued")  # a job that changes its state while states are counted can be counted twice
    awe.data("PUT", f"/job/{ids[1]}?suspend")
    found, total, note = page(awe, "/job?limit=2&offset=3")
    assert ([job["id"] for job in found], total, note) == ([ids[1], ids[0]], 5, "")
    found, total, _ = page(awe, "/job?limit=2&offset=3&direction=asc&verbosity=minimal")
    assert ([job["id"] for job in found], total) == (ids[3:], 5)
    assert page(awe, "/job?offset=9") == ([], 5, "")
    assert page(awe, "/job?suspend")[1] == 1
    assert page(awe, "/job?registered&limit=1")[1] == 5
    assert page(awe, "/job?active&registered&limit=1")[1] == 4
    assert page(awe, "/job?query&state=suspend,completed")[1] == 1
    assert page(awe, "/job?query&state=nonsense")[1] == 0
    assert page(awe, "/job?active&suspend=1&query&state=completed")[1] == 0
    faults.meter.reset()
    page(awe, "/job?limit=1&offset=4&verbosity=minimal")
    assert faults.meter.calls["dynamodb.Query"] <= 9, "one for each partition of the index, and the steps"


def test_workunits_and_reports_beyond_one_answer_are_paged(
    awe: AweCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "MAX_WORKUNITS", 3)
    client = awe.client()
    node = NodeClient(awe.cloud).upload(b"".join(b"%d\n" % at for at in range(70)))["id"]
    split = {"partinfo": {"input": "x", "index": "line"}, "totalwork": 70}
    first = task(inputs={"x": {"host": HOST, "node": node}}, **split)
    job = awe.submit(first, task("1"), clientgroups="docker")["id"]
    works = [client.take() for _ in range(3)]
    for work in works:
        client.finish(work, stdout=work["id"].encode(), perf=b'{"maxmem": 7}')
    found, total, _ = page(awe, f"/work?jobid={job}&limit=5&offset=66")
    assert total == 71
    assert [work["id"] for work in found] == [*(f"{job}_0_{rank}" for rank in (67, 68, 69, 70)), f"{job}_1_0"]
    done, total, _ = page(awe, f"/work?jobid={job}&state=completed&limit=2&offset=2")
    assert total == 3
    assert len(done) == 1
    assert page(awe, "/work?state=queued&limit=1")[1] == 68
    ids = sorted(work["id"] for work in works)
    reported: set[str] = set()
    for offset in range(0, 72, 3):
        answer = awe.send("GET", f"/job/{job}?report&offset={offset}").json
        assert (answer["limit"], answer["offset"], answer["total_count"]) == (3, offset, 71)
        units = [unit for each in answer["data"]["tasks"] for unit in each["workunits"]]
        assert len(units) == min(3, 71 - offset)
        reported |= {unit["wuid"] for unit in units if unit["logs"]}
    assert sorted(reported) == ids
    measured: dict[str, Any] = {}
    for offset in range(0, 72, 3):
        measured |= awe.data("GET", f"/job/{job}?perf&offset={offset}&limit=100")["pworks"]
    assert sorted(measured) == ids


def test_a_list_says_if_it_read_only_some_clients(awe: AweCalls, monkeypatch: pytest.MonkeyPatch) -> None:
    for at in range(3):
        awe.client(name=f"c{at}")
    found, total, note = page(awe, "/client?limit=2&offset=1")
    assert (len(found), total, note) == (2, 3, "")
    monkeypatch.setattr(lists, "MAX_CLIENTS", 2)
    assert "2 clients" in page(awe, "/client")[2]
    monkeypatch.setattr(work_lists, "MAX_JOBS", 1)
    awe.submit(task(), clientgroups="docker")
    assert "jobid" in page(awe, "/work")[2]


def test_a_list_ends_where_an_answer_is_full_and_says_how_to_continue(
    awe: AweCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [awe.submit(task(), clientgroups="docker")["id"] for _ in range(3)]
    answer = awe.send("GET", "/job?limit=3&direction=asc").json
    assert [job["id"] for job in answer["data"]] == ids
    assert (answer["limit"], "note" in answer) == (3, False)
    monkeypatch.setattr(envelope, "MAX_RESPONSE_BYTES", 2 * envelope.response_size(answer["data"][0]) + 200)
    answer = awe.send("GET", "/job?limit=3&direction=asc").json
    assert [job["id"] for job in answer["data"]] == ids[:2]
    assert (answer["limit"], answer["total_count"]) == (2, 3)
    assert "by offset" in answer["note"]
    found, total, note = page(awe, "/job?limit=3&direction=asc&offset=2")
    assert ([job["id"] for job in found], total, note) == (ids[2:], 3, "")
    assert [work["jobid"] for work in page(awe, "/work?limit=3")[0]], "the first entry is always answered"


def test_a_job_that_is_too_large_for_an_answer_has_no_details(
    awe: AweCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs = {f"o{at}": {} for at in range(9)}
    monkeypatch.setattr(envelope, "MAX_RESPONSE_BYTES", 3_000)
    answer = awe.send("POST", "/job", upload=document(task(outputs=outputs), task("1", dependsOn=["0"])))
    assert "too large for one answer" in answer.json["note"]
    job = awe.send("GET", f"/job/{answer.json['data']['id']}").json
    assert [each["outputs"] for each in job["data"]["tasks"]] == [[], []]
    assert [each["taskid"] for each in job["data"]["tasks"]] == ["0", "1"]
    assert "too large" in job["note"]
    monkeypatch.undo()
    assert len(awe.job(job["data"]["id"])["tasks"][0]["outputs"]) == 9


def test_a_log_that_is_too_large_for_an_answer_is_returned_from_its_end(
    awe: AweCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = awe.client()
    awe.submit(task(), clientgroups="docker")
    work = client.take()
    path = f"/work/{work['id']}?status=done&client={client.id}&computetime=1&report"
    awe.data("PUT", path, stdout=b"\xff" * 500 + b"the end", perf=b'{"x": "' + b"y" * 500 + b'"}')
    monkeypatch.setattr(envelope, "MAX_RESPONSE_BYTES", 500)
    text = awe.data("GET", f"/work/{work['id']}?report=stdout")
    assert text.endswith("the end")
    assert envelope.response_size(text) <= 500
    monkeypatch.setattr(logs, "MAX_BYTES", 400)
    [measured] = awe.data("GET", f"/job/{work['jobid']}?perf")["pworks"].values()
    assert measured["text"].endswith('yyy"}')
    [unit] = awe.data("GET", f"/job/{work['jobid']}?report")["tasks"][0]["workunits"]
    assert unit["logs"]["stdout"].endswith("the end")
    assert len(unit["logs"]["stdout"]) < 100


def test_a_log_of_several_megabytes_is_read_whole(awe: AweCalls) -> None:
    client = awe.client()
    awe.submit(task(), clientgroups="docker")
    work = client.take()
    text = "".join(f"line {at:07}\n" for at in range(200_000))
    client.finish(work, stdout=text.encode(), worknotes=b"n" * 1_500_000)
    assert awe.data("GET", f"/work/{work['id']}?report=stdout") == text
    assert awe.data("GET", f"/work/{work['id']}?report=worknotes") == "n" * 1_500_000


def test_a_report_ends_where_an_answer_is_full_and_says_how_to_continue(
    awe: AweCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = awe.client()
    job = awe.submit(*(task(str(at)) for at in range(3)), clientgroups="docker")["id"]
    for _ in range(3):
        text = b"x" * 100
        client.finish(
            client.take(), stdout=text, stderr=text, worknotes=text, perf=b'{"x": "' + text * 3 + b'"}'
        )
    assert awe.send("GET", f"/job/{job}?report").json["limit"] == logs.MAX_WORKUNITS
    monkeypatch.setattr(logs, "MAX_BYTES", 700)
    for what in ("report", "perf"):
        units: list[str] = []
        while len(units) < 3:
            answer = awe.send("GET", f"/job/{job}?{what}&offset={len(units)}").json
            data = answer["data"]
            found = list(data.get("pworks", ())) or [
                unit["id"] for each in data["tasks"] for unit in each["workunits"]
            ]
            assert answer["total_count"] == 3
            assert len(found) == (1 if len(units) == 2 else 2)
            if len(units) < 2:
                assert answer["limit"] == 2
                assert "by offset" in answer["note"]
            units += found
        assert units == [f"{job}_{at}_0" for at in range(3)], what
