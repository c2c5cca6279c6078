"""Control of jobs and clients, queries with filters, client groups with tokens, and the queue."""

from datetime import UTC, datetime, timedelta

import pytest

from support.moto.cloud import Cloud
from support.scenarios.access import Callers
from support.scenarios.awe.awe_calls import AweCalls, task
from support.scenarios.awe.node_client import NodeClient

HOST = "http://test.execute-api.us-east-1.amazonaws.com/awe"
SPLIT = b"".join(b">r%d\nACGT\n" % at for at in range(10))


@pytest.fixture
def awe(cloud: Cloud) -> AweCalls:
    return AweCalls(cloud)


def test_a_job_is_suspended_and_resumed(awe: AweCalls) -> None:
    client = awe.client()
    job = awe.submit(task(), clientgroups="docker")["id"]
    assert awe.data("PUT", f"/job/{job}?suspend") == f"job suspended: {job}"
    found = awe.job(job)
    assert (found["state"], found["registered"]) == ("suspend", True)
    assert "suspended by" in found["notes"]
    assert awe.data("PUT", f"/job/{job}?resume") == f"job resumed: {job}"
    client.finish(client.take())
    awe.wait(job, "completed")


def test_a_resumed_job_repeats_the_failed_unit_even_on_the_same_client(awe: AweCalls) -> None:
    client = awe.client()
    job = awe.submit(task(), task("1", dependsOn=["0"]), clientgroups="docker", noretry=True)["id"]
    client.finish(client.take())
    client.finish(client.take(), "fail", worknotes=b"broken")
    found = awe.wait(job, "suspend")
    assert found["lastfailed"] == f"{job}_1_0"
    assert found["remaintasks"] == 1
    assert awe.data("PUT", f"/job/{job}?resume") == f"job resumed: {job}"
    work = client.take()
    assert work["id"] == f"{job}_1_0"
    client.finish(work)
    awe.wait(job, "completed")


def test_recover_continues_a_suspended_failed_or_killed_job(awe: AweCalls) -> None:
    client = awe.client()
    job = awe.submit(task(), task("1", dependsOn=["0"]), clientgroups="docker", noretry=True)["id"]
    recovered = f"job recovered: {job}"
    awe.data("PUT", f"/job/{job}?suspend")
    assert awe.data("PUT", f"/job/{job}?recover") == recovered
    client.finish(client.take())
    client.finish(client.take(), "fail")
    awe.wait(job, "suspend")
    assert awe.data("PUT", f"/job/{job}?recover") == recovered
    work = client.take()
    assert work["id"] == f"{job}_1_0"
    assert awe.data("PUT", f"/job/{job}?recover") == recovered
    assert awe.job(job)["state"] == "in-progress", "a running job is not changed"
    v1 = f"/v1/jobs/{awe.job(job)['definition']}/{job}"
    assert awe.cloud.http("POST", f"{v1}:kill", {}).status in (200, 202)
    awe.wait(job, "suspend")
    assert awe.data("PUT", f"/job/{job}?recover") == recovered
    client.finish(client.take())
    done = awe.wait(job, "completed")
    assert (done["remaintasks"], done["lastfailed"]) == (0, "")
    assert "nothing to recover" in awe.error("PUT", f"/job/{job}?recover")


def test_recompute_and_resubmit_repeat_the_expected_tasks(awe: AweCalls) -> None:
    client = awe.client()
    job = awe.submit(task(), task("1", dependsOn=["0"]), clientgroups="docker")["id"]
    for _ in range(2):
        client.finish(client.take())
    awe.wait(job, "completed")
    assert awe.data("PUT", f"/job/{job}?recompute=1").endswith(job)
    work = client.take()
    assert work["id"] == f"{job}_1_0"
    client.finish(work)
    awe.wait(job, "completed")
    assert awe.data("PUT", f"/job/{job}?resubmit") == f"job resubmitted: {job}"
    assert client.take()["id"] == f"{job}_0_0"
    assert "no task '7'" in awe.error("PUT", f"/job/{job}?recompute=7")


def test_the_group_priority_pipeline_and_token_of_a_job_are_changed(awe: AweCalls) -> None:
    client = awe.client("red")
    job = awe.submit(task(outputs={"o": {}}), clientgroups="docker", auth=True)["id"]
    assert awe.data("PUT", f"/job/{job}?clientgroup=red") == f"job group updated: {job} to red"
    assert awe.data("PUT", f"/job/{job}?priority=9") == f"job priority updated: {job} to 9"
    assert awe.data("PUT", f"/job/{job}?pipeline=other") == f"job pipeline updated: {job} to other"
    info = awe.job(job)["info"]
    assert (info["clientgroups"], info["priority"], info["pipeline"]) == ("red", 9, "other")
    many = ",".join(f"g{at}" for at in range(101))
    assert "at most 100 client groups" in awe.error("PUT", f"/job/{job}?clientgroup={many}")
    assert "Datatoken" in awe.error("PUT", f"/job/{job}?settoken")
    headers = {"datatoken": "OAuth user-token"}
    assert awe.cloud.http("PUT", f"/awe/job/{job}?settoken", headers=headers).status == 200
    work = client.take()
    answer = awe.send("GET", f"/work/{work['id']}?datatoken&client={client.id}")
    assert answer.headers["datatoken"] == "OAuth user-token"
    assert "must have one of" in awe.error("PUT", f"/job/{job}?what")
    assert "integer" in awe.error("PUT", f"/job/{job}?priority=high")


def test_a_data_token_makes_a_job_private_and_reads_its_inputs_until_it_is_replaced(awe: AweCalls) -> None:
    owner = NodeClient(awe.cloud)
    node, other = owner.upload(b"a\nb\n")["id"], owner.upload(b"not an input")["id"]
    inputs = {"x": {"host": HOST, "node": node}}
    document = {"info": {"clientgroups": "docker"}, "tasks": [task(inputs=inputs, outputs={"o": {}})]}
    headers = {"datatoken": "mgrast first-token"}
    job = awe.cloud.http("POST", "/awe/job", document, headers=headers).json["data"]
    assert job["info"]["auth"] is True, "although the document does not say so"
    client = awe.client()
    work = client.take()
    path = f"/work/{work['id']}?datatoken&client={client.id}"
    assert awe.send("GET", path).headers["datatoken"] == "mgrast first-token"
    first = NodeClient(awe.cloud, "OAuth first-token")
    assert first.download(node) == b"a\nb\n"
    assert first.error("GET", f"/{other}")[0] == 401, "only the inputs of the job"
    assert first.error("PUT", f"/{node}", {"upload": ("x", b"changed")})[0] == 401
    headers = {"datatoken": "second-token"}
    answer = awe.cloud.http("PUT", f"/awe/job/{job['id']}?settoken", headers=headers)
    assert answer.json["data"] == f"data token set for job: {job['id']}"
    assert first.error("GET", f"/{node}?download")[0] == 401
    assert NodeClient(awe.cloud, "OAuth second-token").download(node) == b"a\nb\n"
    awe.data("DELETE", f"/job/{job['id']}?full")
    assert NodeClient(awe.cloud, "OAuth second-token").error("GET", f"/{node}")[0] == 401


@pytest.mark.parametrize("token", ["\u00fc", "x" * 4_097, "a\tb"])
def test_a_data_token_that_is_no_valid_header_is_rejected(awe: AweCalls, token: str) -> None:
    job = awe.submit(task(), clientgroups="docker")["id"]
    document = {"info": {}, "tasks": [task()]}
    for method, path, body in (("POST", "/awe/job", document), ("PUT", f"/awe/job/{job}?settoken", None)):
        answer = awe.cloud.http(method, path, body, headers={"datatoken": token})
        assert (answer.status, "a data token must" in answer.json["error"][0]) == (400, True)


def test_settoken_makes_a_job_private(awe: AweCalls) -> None:
    job = awe.submit(task(), clientgroups="docker")["id"]
    headers = {"datatoken": "secret"}
    awe.cloud.http("PUT", f"/awe/job/{job}?settoken", headers=headers)
    assert awe.job(job)["info"]["auth"] is True
    client = awe.client()
    work = client.take()
    assert work["info"]["auth"] is True
    answer = awe.send("GET", f"/work/{work['id']}?datatoken&client={client.id}")
    assert answer.headers["datatoken"] == "secret"


def test_a_job_expires_after_its_end(awe: AweCalls) -> None:
    client = awe.client()
    job = awe.submit(task(), clientgroups="docker")["id"]
    assert "12H" in awe.error("PUT", f"/job/{job}?expiration=soon")
    awe.data("PUT", f"/job/{job}?expiration=1H")
    assert awe.job(job)["expiration"] > awe.job(job)["updatetime"]
    client.finish(client.take())
    awe.wait(job, "completed")
    awe.cloud.deliver_job_ends()
    awe.cloud.tick(datetime.now(UTC) + timedelta(minutes=30))
    assert awe.job(job)["state"] == "completed"
    awe.cloud.tick(datetime.now(UTC) + timedelta(hours=2))
    assert "not found" in awe.error("GET", f"/job/{job}")


def test_a_deleted_job_is_readable_until_its_full_deletion(awe: AweCalls) -> None:
    client = awe.client()
    job = awe.submit(task(), clientgroups="docker")["id"]
    work = client.take()
    assert awe.data("DELETE", f"/job/{job}") == f"job deleted: {job}"
    found = awe.job(job)
    assert (found["state"], found["registered"], found["tasks"][0]["state"]) == ("deleted", False, "suspend")
    assert awe.data("GET", f"/job/{job}?perf")["id"] == job
    for method, query in (("PUT", "?resume"), ("PUT", "?resubmit"), ("DELETE", "")):
        assert awe.error(method, f"/job/{job}{query}") == f"job not found: {job}"
    assert client.beat()["discard"] == work["id"]
    assert awe.data("DELETE", f"/job/{job}?full") == f"job deleted: {job}"
    assert awe.error("GET", f"/job/{job}") == f"job not found: {job}"
    assert awe.error("DELETE", f"/job/{job}?full") == f"job not found: {job}"


def test_a_client_discards_the_unit_of_a_job_that_was_deleted_in_full(awe: AweCalls) -> None:
    client = awe.client()
    job = awe.submit(task(), clientgroups="docker")["id"]
    work = client.take()
    awe.data("DELETE", f"/job/{job}?full")
    assert work["id"] in client.beat()["discard"].split(",")
    assert "discard" not in client.beat()


def test_jobs_are_listed_with_filters_and_pages(awe: AweCalls) -> None:
    ids = [
        awe.submit(task(), name=f"n{at}", user=f"u{at % 2}", clientgroups="docker", priority=at)["id"]
        for at in range(4)
    ]
    awe.data("PUT", f"/job/{ids[0]}?suspend")

    def listed(query: str) -> list[str]:
        return [job["id"] for job in awe.data("GET", f"/job?{query}")]

    answer = awe.send("GET", "/job?limit=3&offset=1").json
    assert (answer["limit"], answer["offset"], answer["total_count"]) == (3, 1, 4)
    assert [job["id"] for job in answer["data"]] == ids[2::-1]
    assert listed("suspend") == [ids[0]]
    assert listed("active&direction=asc") == ids[1:]
    assert listed("query&info.user=u1") == [ids[3], ids[1]]
    assert listed("query&state=suspend") == [ids[0]]
    assert listed("query&info.name=n1,n2&direction=asc") == ids[1:3]
    both = awe.submit(task(), clientgroups="red,blue")["id"]
    assert listed("query&info.clientgroups=red,blue") == [both]
    awe.data("DELETE", f"/job/{both}?full")
    assert listed("order=info.priority&direction=asc") == ids
    assert listed("date_start=2999-01-01") == []
    assert len(listed("date_start=2020-01-01&date_end=2999-01-01&registered")) == 4
    [first, *_] = awe.data("GET", "/job?verbosity=minimal")
    assert (first["id"], first["name"], first["remaintasks"]) == (ids[3], "n3", 1)
    assert "date" in awe.error("GET", "/job?date_start=yesterday")
    assert awe.data("GET", f"/job/{ids[2]}?position")["position"] == 2
    assert "not in the queue" in awe.error("GET", f"/job/{ids[0]}?position")


def test_workunits_are_listed_with_their_logs_and_performance(awe: AweCalls) -> None:
    client = awe.client()
    job = awe.submit(task(), task("1", dependsOn=["0"]), clientgroups="docker")["id"]
    work = client.take()
    [listed] = awe.data("GET", "/work?state=checkout")
    assert (listed["id"], listed["client"]) == (work["id"], client.id)
    client.finish(work, stdout=b"out" * 3_000, stderr=b"\xff", worknotes=b"n", perf=b'{"maxmem": 7}')
    read = awe.data("GET", f"/work/{work['id']}")
    assert (read["state"], read["computetime"], read["client"]) == ("completed", 7, client.id)
    assert awe.data("GET", f"/work/{work['id']}?report=stdout") == "out" * 3_000
    assert awe.data("GET", f"/work/{work['id']}?report=worknotes") == "n"
    assert "report must be" in awe.error("GET", f"/work/{work['id']}?report=x")
    report = awe.data("GET", f"/job/{job}?report")
    assert report["tasks"][0]["workunits"][0]["logs"]["worknotes"] == "n"
    perf = awe.data("GET", f"/job/{job}?perf")
    assert perf["pworks"] == {work["id"]: {"maxmem": 7}}
    assert perf["ptasks"][f"{job}_0"]["computetime"] == 7
    assert awe.data("GET", f"/work?jobid={job}&state=completed")[0]["id"] == work["id"]
    assert awe.error("GET", f"/work/{job}_9_0") == f"workunit not found: {job}_9_0"


def test_clients_are_listed_suspended_and_resumed(awe: AweCalls) -> None:
    one, two = awe.client("red", apps=["fgs"]), awe.client("blue")
    awe.submit(task(), clientgroups="blue")
    two.take()

    def listed(query: str) -> list[str]:
        return [client["id"] for client in awe.data("GET", f"/client?{query}")]

    assert set(listed("")) == {one.id, two.id}
    assert listed("busy") == [two.id]
    assert listed("group=red") == [one.id]
    assert listed("status=active-idle") == [one.id]
    assert set(listed("app=fgs")) == {one.id, two.id}
    assert listed("app=bowtie") == [two.id]
    assert awe.data("PUT", f"/client/{one.id}?suspend") == "client suspended"
    assert one.refused() == "Client suspended"
    assert listed("status=suspend") == [one.id]
    assert awe.data("PUT", f"/client/{one.id}?resume") == "client resumed"
    assert awe.data("PUT", "/client?suspendall") == "2 active clients are suspended"
    assert awe.data("PUT", "/client?resumeall") == "2 suspended clients are resumed"
    awe.data("PUT", f"/client/{one.id}?subclients=5")
    assert awe.data("GET", f"/client/{one.id}")["subclients"] == 5
    busy = awe.data("GET", f"/client/{two.id}")
    assert list(busy["current_work"].values()) == [True]
    assert "must have" in awe.error("PUT", f"/client/{one.id}?x")


def test_a_group_token_serves_its_group_only(awe: AweCalls) -> None:
    made = awe.data("POST", "/cgroup/gpu")
    assert (made["id"], made["name"]) == ("gpu", "gpu")
    member = AweCalls(awe.cloud, made["token"])
    client = member.client("gpu")
    assert member.send("POST", "/client", profile=b'{"group": "other"}').status == 403
    assert member.send("GET", "/job").status == 403
    job = awe.submit(task(), clientgroups="gpu")["id"]
    work = client.take()
    outside = AweCalls(awe.cloud, Callers(awe.cloud).with_scopes("worker").token)
    assert outside.error("GET", f"/work?client={client.id}&available=1") == "Client not found"
    assert outside.error("PUT", f"/work/{work['id']}?status=done&client={client.id}") == "Client not found"
    client.finish(work)
    awe.wait(job, "completed")
    known = {group["name"]: group["has_token"] for group in awe.data("GET", "/cgroup")}
    assert (known["gpu"], known["default"]) == (True, False)
    assert "token" not in awe.data("GET", "/cgroup/gpu")
    renewed = awe.data("PUT", "/cgroup/gpu/token")["token"]
    assert renewed != made["token"]
    awe.data("DELETE", "/cgroup/gpu/token")
    assert "no token" in awe.error("DELETE", "/cgroup/gpu/token")
    assert awe.data("DELETE", "/cgroup/gpu")["name"] == "gpu"


def test_a_document_needs_the_scopes_submit_and_define(awe: AweCalls) -> None:
    callers = Callers(awe.cloud)
    document = b'{"info": {}, "tasks": [{"cmd": {"name": "true"}}]}'
    submitter = AweCalls(awe.cloud, callers.with_scopes("submit").token)
    assert "define" in submitter.error("POST", "/job", upload=document)
    both = AweCalls(awe.cloud, callers.with_scopes("submit", "define", owner="bob").token)
    job = both.data("POST", "/job", upload=document)
    assert job["info"]["user"] == "bob"


def test_the_queue_summary_counts_jobs_tasks_and_clients(awe: AweCalls) -> None:
    client = awe.client()
    awe.submit(task(), task("1", dependsOn=["0"]), clientgroups="docker")
    client.take()
    assert awe.data("GET", "/queue?json") == {
        "jobs": {"total": 1, "active": 1, "suspended": 0},
        "tasks": {
            "total": 2,
            "queuing": 0,
            "in-progress": 1,
            "pending": 1,
            "completed": 0,
            "suspended": 0,
            "failed": 0,
        },
        "workunits": {"total": 1, "queuing": 0, "checkout": 1, "suspended": 0},
        "clients": {"total": 1, "busy": 1, "idle": 0, "suspended": 0},
    }
    assert "total jobs" in awe.data("GET", "/queue")


def test_a_split_gives_each_workunit_its_part(awe: AweCalls) -> None:
    client = awe.client()
    node = awe.data("POST", "/node", upload=SPLIT)["id"]
    host = "http://test.execute-api.us-east-1.amazonaws.com/awe"
    job = awe.submit(
        task(
            inputs={"reads.fna": {"host": host, "node": node}},
            outputs={"out": {"host": host}},
            partinfo={"input": "reads.fna", "index": "record"},
            totalwork=4,
        ),
        clientgroups="docker",
    )["id"]
    works = [client.take() for _ in range(4)]
    assert sorted(work["rank"] for work in works) == [1, 2, 3, 4]
    for work in works:
        assert (work["totalwork"], work["id"]) == (4, f"{job}_0_{work['rank']}")
        part = work["part"]
        assert (part["input"], part["index"], part["totalindex"]) == ("reads.fna", "record", 10)
    assert (awe.job(job)["tasks"][0]["totalwork"], awe.job(job)["tasks"][0]["remainwork"]) == (4, 4)
    fault = client.report(works[0])
    assert fault.status == 200
    client.finish(works[1], "failed-permanent")
    assert set(client.beat()["discard"].split(",")) >= {works[2]["id"], works[3]["id"]}
    found = awe.wait(job, "suspend")
    assert found["lastfailed"] == works[1]["id"]


@pytest.mark.parametrize("call", ["DELETE /job/{id}", "PUT /job/{id}?resubmit", "PUT /job/{id}?recompute=0"])
def test_a_dependent_starts_when_its_parent_changes_right_after_its_end(awe: AweCalls, call: str) -> None:
    client = awe.client()
    job = awe.submit(task(), clientgroups="docker")["id"]
    parent = awe.job(job)["definition"]
    child = {"steps": [{"stepName": "a"}], "dependencies": [parent]}
    assert awe.cloud.http("PUT", "/v1/definitions/child", child).status == 201
    client.finish(client.take())
    awe.wait(job, "completed")
    method, path = call.format(id=job).split()
    awe.data(method, path)
    assert len(awe.cloud.http("GET", "/v1/jobs?jobName=child").json["items"]) == 1
