"""Every field of the tables of seed 002 is in the answers, and true while a job runs."""

from __future__ import annotations

import re

import pytest

from support.moto.cloud import Cloud
from support.scenarios.awe.awe_calls import AweCalls, task

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z\Z")
JOB = "id jid info tasks state registered remaintasks updatetime notes lastfailed"
TASK = (
    "id info inputs outputs predata cmd dependsOn maxworksize totalwork remainwork state createdate "
    "starteddate completeddate computetime"
)
WORK = "id info inputs outputs predata cmd rank state failed checkout_time client computetime"
CLIENT = (
    "id name group user domain instance_id instance_type remaintasks host cores apps regtime serve_time "
    "idle_time Status total_checkout total_completed total_failed current_work skip_work proxy subclients"
)
INFO = (
    "name project user pipeline clientgroups submittime startedtime completedtime priority auth "
    "noretry userattr"
)
PART = "input index totalindex maxpartsize_mb"
IO = "name host node url size origin nonzero shockfilename shockindex attrfile"
COMMAND = "name args dockerimage environ has_private_env description"
NEVER = "0001-01-01T00:00:00Z"


@pytest.fixture
def awe(cloud: Cloud) -> AweCalls:
    return AweCalls(cloud)


def test_answers_have_every_field_of_the_tables(awe: AweCalls) -> None:
    client = awe.client(
        user="ann", domain="lab", instance_id="i-1", instance_type="t", host="10.0.0.1", cores=8, proxy=True
    )
    first = task(
        outputs={"o": {"nonzero": True, "shockindex": "line", "attrfile": "a", "shockfilename": "stored"}},
        cmd={"name": "x", "args": "-a", "dockerimage": "i", "description": "d"},
    )
    second = task("1", inputs={"o": {"origin": "0"}})
    info = {"name": "n", "project": "p", "user": "u", "pipeline": "pipe", "clientgroups": "docker"}
    job = awe.submit(first, second, **info, noretry=True, userattr={"k": "v"})
    other = awe.submit(task(), clientgroups="elsewhere")
    assert set(JOB.split()) <= job.keys()
    assert int(other["jid"]) == int(job["jid"]) + 1, "incremental"
    assert (job["registered"], job["remaintasks"], job["lastfailed"], job["notes"]) == (True, 2, "", "")
    assert (job["state"], [each["state"] for each in job["tasks"]]) == ("init", ["init", "pending"])
    assert set(INFO.split()) <= job["info"].keys()
    assert {name: job["info"][name] for name in info} == info
    assert (job["info"]["startedtime"], job["info"]["completedtime"]) == (NEVER, NEVER)
    for each in job["tasks"]:
        assert set(TASK.split()) <= each.keys()
        assert each["info"] == job["info"]
        assert set(COMMAND.split()) <= each["cmd"].keys()
    assert job["tasks"][1]["dependsOn"] == [f"{job['id']}_0"]
    assert set(IO.split()) <= job["tasks"][0]["outputs"][0].keys()
    assert job["tasks"][1]["inputs"][0]["node"] == job["tasks"][0]["outputs"][0]["node"]

    work = client.take()
    assert set(WORK.split()) <= work.keys()
    assert TIME.match(work["checkout_time"])
    running = awe.job(job["id"])
    assert (running["state"], running["tasks"][0]["state"], running["tasks"][1]["state"]) == (
        "in-progress",
        "in-progress",
        "pending",
    )
    assert TIME.match(running["info"]["startedtime"])
    assert running["info"]["startedtime"] != NEVER
    assert running["tasks"][0]["starteddate"] != NEVER
    assert running["tasks"][0]["completeddate"] == NEVER
    busy = awe.data("GET", f"/client/{client.id}")
    assert set(CLIENT.split()) <= busy.keys()
    assert (busy["Status"], busy["current_work"], busy["remaintasks"]) == (
        "active-busy",
        {work["id"]: True},
        1,
    )
    assert (busy["idle_time"], busy["total_checkout"], busy["proxy"]) == (0, 1, True)
    described = [busy[name] for name in ("user", "domain", "instance_id", "instance_type", "host", "cores")]
    assert described == ["ann", "lab", "i-1", "t", "10.0.0.1", 8]

    awe.data("PUT", f"/node/{work['outputs'][0]['node']}", upload=b"1\n2\n")
    client.finish(work)
    work = client.take()
    assert work["inputs"][0]["size"] == 4
    client.finish(work, "fail", worknotes=b"disk full")
    failed = awe.wait(job["id"], "suspend")
    assert (failed["remaintasks"], failed["registered"]) == (1, True)
    assert failed["lastfailed"] == f"{job['id']}_1_0"
    assert "disk full" in failed["notes"]
    assert (failed["tasks"][0]["remainwork"], failed["tasks"][1]["remainwork"]) == (0, 1)
    assert failed["tasks"][0]["computetime"] == 7
    unit = awe.data("GET", f"/work/{work['id']}")
    assert (unit["state"], unit["failed"], unit["client"]) == ("suspend", 1, client.id)
    idle = awe.data("GET", f"/client/{client.id}")
    totals = [idle[name] for name in ("total_checkout", "total_completed", "total_failed")]
    assert (totals, idle["skip_work"], idle["current_work"]) == ([2, 1, 1], [work["id"]], {})
    assert (idle["Status"], idle["remaintasks"]) == ("active-idle", 0)
    assert re.fullmatch(r"\d+h\d+m", idle["serve_time"])

    awe.data("PUT", f"/job/{job['id']}?resume")
    client.finish(client.take())
    done = awe.wait(job["id"], "completed")
    assert (done["remaintasks"], done["registered"], done["lastfailed"]) == (0, False, "")
    assert done["info"]["completedtime"] != NEVER
    assert all(each["completeddate"] != NEVER for each in done["tasks"])
    assert awe.data("GET", f"/client/{client.id}")["total_completed"] == 2


def test_workunits_of_a_split_have_the_fields_of_their_part(awe: AweCalls) -> None:
    client = awe.client()
    node = awe.data("POST", "/node", upload=b"".join(b"%d\n" % at for at in range(10)))["id"]
    host = "http://test.execute-api.us-east-1.amazonaws.com/awe"
    split = {"inputs": {"x": {"host": host, "node": node}}, "partinfo": {"input": "x", "index": "line"}}
    job = awe.submit(task(**split, totalwork=4), clientgroups="docker")["id"]
    works = sorted((client.take() for _ in range(4)), key=lambda work: int(work["rank"]))
    parts = []
    for work in works:
        assert set(PART.split()) <= work["part"].keys()
        each, more = divmod(work["part"]["totalindex"], work["totalwork"])
        start = (work["rank"] - 1) * each + min(work["rank"] - 1, more) + 1
        parts.append((start, start + each - (0 if work["rank"] <= more else 1)))
    assert parts == [(1, 3), (4, 6), (7, 8), (9, 10)]
    whole = b""
    for first, last in parts:
        path = f"/awe/node/{node}?download&index=line&part={first}-{last}"
        headers = {"authorization": f"OAuth {awe.token}", "user-agent": "Go-http-client/1.1"}
        whole += awe.cloud.http("GET", path, token=None, headers=headers).text.encode()
    assert whole == b"".join(b"%d\n" % at for at in range(10))
    client.finish(works[0])
    assert awe.job(job)["tasks"][0]["remainwork"] == 3


def test_a_task_of_one_workunit_keeps_its_split_limits(awe: AweCalls) -> None:
    node = awe.data("POST", "/node", upload=b"ACGT\n")["id"]
    split = {"inputs": {"x": {"node": node}}, "maxworksize": 50, "partinfo": {"input": "x"}}
    client = awe.client()
    job = awe.submit(task(**split), clientgroups="docker")
    work = client.take()
    assert (work["rank"], work["totalwork"], work["part"]) == (0, 1, None)
    [found] = awe.job(job["id"])["tasks"]
    assert (found["maxworksize"], found["totalwork"], found["remainwork"]) == (50, 1, 1)
    part = {"input": "x", "index": "chunkrecord", "totalindex": 1, "maxpartsize_mb": 50, "options": ""}
    assert found["partinfo"] == part
