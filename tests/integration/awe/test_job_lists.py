"""Lists of jobs with filters are complete, although each request reads a bounded number of jobs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from shardmill.engine.awe import job_lists
from shardmill.store import indexes
from support.aws_rules.faults import Faults
from support.moto.cloud import Cloud
from support.scenarios.access import Callers
from support.scenarios.awe.awe_calls import AweCalls, task


@pytest.fixture
def awe(cloud: Cloud) -> AweCalls:
    return AweCalls(cloud)


def pages(awe: AweCalls, path: str) -> Iterator[dict[str, Any]]:
    """The answers for a list, each continued by the cursor of the one before."""
    cursor = ""
    while True:
        answer = awe.send("GET", f"{path}{cursor}").json
        assert answer["status"] == 200, answer
        yield answer
        if "cursor" not in answer:
            return
        cursor = f"&cursor={answer['cursor']}"


@pytest.fixture
def jobs(awe: AweCalls) -> list[str]:
    """Seven jobs, of which every other is of the user `u0`."""
    ids = [awe.submit(task(), user=f"u{at % 2}", name=f"n{at}", clientgroups="d")["id"] for at in range(7)]
    for each in ids:
        awe.wait(each, "queued")
    return ids


@pytest.mark.parametrize("direction", ["asc", "desc"])
@pytest.mark.parametrize("limit", [1, 2, 9])
@pytest.mark.parametrize("flags", ["", "active&"])
def test_a_filtered_list_is_complete_over_its_pages(
    awe: AweCalls, jobs: list[str], monkeypatch: pytest.MonkeyPatch, direction: str, limit: int, flags: str
) -> None:
    monkeypatch.setattr(job_lists, "MAX_SCANNED", 2)
    path = f"/job?{flags}query&info.user=u0&limit={limit}&direction={direction}&verbosity=minimal"
    answers = list(pages(awe, path))
    found = [job["id"] for answer in answers for job in answer["data"]]
    expected = jobs[::2] if direction == "asc" else jobs[::-2]
    assert found == expected
    assert answers[-1]["total_count"] == 4
    assert all(answer["total_count"] <= 4 for answer in answers)
    assert "total_count may grow; repeat the request with this cursor" in answers[0]["note"]


def test_an_offset_counts_from_the_beginning_whatever_the_cursor(
    awe: AweCalls, jobs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_lists, "MAX_SCANNED", 3)
    path = "/job?query&info.user=u0&limit=1&offset=3&verbosity=minimal"
    answers = list(pages(awe, path))
    assert [job["id"] for answer in answers for job in answer["data"]] == [jobs[0]]
    assert answers[0]["data"] == []
    assert (answers[-1]["offset"], answers[-1]["total_count"]) == (3, 4)
    assert "cursor" in awe.error("GET", "/job?query&info.user=u0&cursor=x")
    most = "9" * 12
    for direction in ("asc", "desc"):
        for cursor in (f"{most}-{most}", "0-0"):
            answer = awe.send("GET", f"/job?query&info.user=u0&cursor={cursor}&direction={direction}")
            assert answer.status == 200


def test_jobs_beyond_the_dates_are_not_read(awe: AweCalls, jobs: list[str], faults: Faults) -> None:
    for query in ("date_start=2999-01-01", "date_end=2000-01-01&direction=asc"):
        faults.meter.reset()
        assert awe.send("GET", f"/job?{query}").json["total_count"] == 0
        assert faults.meter.calls["dynamodb.BatchGetItem"] == 1
    answer = awe.send("GET", "/job?date_start=2020-01-01&date_end=2999-01-01&limit=2&offset=1").json
    assert ([job["id"] for job in answer["data"]], answer["total_count"]) == (jobs[-2:-4:-1], 7)


def test_the_list_of_a_token_that_sees_some_jobs(
    awe: AweCalls, jobs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_lists, "MAX_SCANNED", 2)
    other = awe.submit(task(), pipeline="mine", clientgroups="d")["id"]
    awe.wait(other, "queued")
    scope = {"scope": "read", "definitions": ["awe-mine"]}
    reader = AweCalls(awe.cloud, Callers(awe.cloud).with_scopes(scope).token)
    answers = list(pages(reader, "/job?limit=5&direction=asc"))
    assert [job["id"] for answer in answers for job in answer["data"]] == [other]
    assert answers[-1]["total_count"] == 1


def test_an_order_by_a_field_says_how_many_jobs_it_covers(
    awe: AweCalls, jobs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "/job?order=info.name&direction=asc&limit=2&offset=1"
    answer = awe.send("GET", path).json
    assert [job["id"] for job in answer["data"]] == jobs[1:3]
    assert (answer["total_count"], "note" in answer) == (7, False)
    monkeypatch.setattr(job_lists, "MAX_SCANNED", 3)
    answer = awe.send("GET", path).json
    assert [job["id"] for job in answer["data"]] == jobs[5:7]
    assert "only the newest 3 jobs" in answer["note"]


def test_a_list_without_filters_continues_where_counting_ends(
    awe: AweCalls, jobs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_lists, "MAX_COUNTED", 4)
    found = [job["id"] for answer in pages(awe, "/job?limit=3&direction=asc") for job in answer["data"]]
    assert found == jobs


def test_the_position_in_a_long_queue(
    awe: AweCalls, jobs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    awe.data("PUT", f"/job/{jobs[6]}?priority=5")
    path = f"/job/{jobs[4]}?position"
    assert awe.data("GET", path) == {"id": jobs[4], "position": 6}
    monkeypatch.setattr(job_lists, "MAX_SCANNED", 3)
    places, cursor = [], ""
    while cursor is not None:
        found = awe.data("GET", path + cursor)
        places.append(found["position"])
        assert ("cursor" in found) == ("note" in found)
        cursor = f"&cursor={found['cursor']}" if "cursor" in found else None
    assert places == [4, 5, 6]


def test_fields_of_tasks(awe: AweCalls, monkeypatch: pytest.MonkeyPatch) -> None:
    client = awe.client(apps=["sort"])
    first = awe.submit(task(cmd={"name": "sort"}), task("1", dependsOn=["0"]), clientgroups="docker")["id"]
    second = awe.submit(task("align", cmd={"name": "bowtie", "args": "-x"}), clientgroups="docker")["id"]
    client.finish(client.take())
    awe.cloud.run_until(lambda: awe.job(first)["tasks"][1]["state"] == "queued")

    def listed(query: str) -> list[str]:
        return [job["id"] for job in awe.data("GET", f"/job?query&{query}")]

    assert listed("tasks.cmd.name=bowtie") == [second]
    assert listed("tasks.cmd.name=bowtie,sort") == [second, first]
    assert listed("tasks.state=completed") == [first]
    assert listed("tasks.0.state=queued") == [second]
    assert listed("tasks.dependsOn=" + f"{first}_0") == [first]
    assert listed("tasks.taskid=align&info.clientgroups=docker") == [second]
    assert listed("tasks.taskid=align&info.clientgroups=other") == []
    assert listed("tasks.nothing=1") == []
    assert listed("remaintasks=1&direction=asc") == [first, second]
    monkeypatch.setattr(job_lists, "MAX_SCANNED", 5)
    answers = list(pages(awe, "/job?query&tasks.cmd.name=sort"))
    assert [len(answer["data"]) for answer in answers] == [0, 1]


def test_units_and_notes_are_found_as_they_are_shown(awe: AweCalls) -> None:
    client = awe.client()
    job = awe.submit(task(), task("b", dependsOn=["0"]), clientgroups="docker", noretry=True)["id"]
    client.finish(client.take())
    client.finish(client.take(), "fail")
    shown = awe.wait(job, "suspend")["lastfailed"]
    assert shown == f"{job}_b_0"
    assert [each["id"] for each in awe.data("GET", f"/job?query&lastfailed={shown}")] == [job]


def test_the_numbers_of_jobs_stay_in_the_range_of_the_index() -> None:
    for place in (indexes.jobs_after(10**12 - 1), indexes.jobs_before(0)):
        assert place[1] <= place[2]


@pytest.mark.parametrize("path", ["/job", "/work", "/client", "/cgroup"])
def test_a_limit_of_zero_is_as_many_as_an_answer_has(awe: AweCalls, jobs: list[str], path: str) -> None:
    awe.client("d")
    answer = awe.send("GET", f"{path}?limit=0").json
    assert answer["status"] == 200
    assert len(answer["data"]) == answer["total_count"] > 0
    assert answer["limit"] > 0
    assert awe.send("GET", f"/job/{jobs[0]}?report&limit=0").json["limit"] > 0
