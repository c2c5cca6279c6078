"""Clients register, check workunits out, report them, and get instructions to discard them."""

import base64
import json

import pytest

from shardmill.aws.clock import now_ms
from shardmill.engine.mill import mill
from support.aws_rules.faults import Faults
from support.moto.cloud import Cloud
from support.scenarios.awe.awe_calls import AweCalls, task
from support.scenarios.awe.node_client import BOUNDARY


@pytest.fixture
def awe(cloud: Cloud) -> AweCalls:
    return AweCalls(cloud)


def test_a_client_runs_a_job(awe: AweCalls) -> None:
    client = awe.client(name="worker-1", cores=4, user="u", some_new_field=1)
    assert client.document["name"] == "worker-1"
    assert client.document["server_uuid"] == awe.cloud.http("GET", "/awe").json["uuid"]
    assert client.refused() == "Server queue is empty"
    job = awe.submit(task(), clientgroups="docker", userattr={"k": "v"})
    work = client.take()
    assert (work["id"], work["wuid"]) == (f"{job['id']}_0_0",) * 2
    assert (work["task_name"], work["jobid"], work["rank"], work["totalwork"]) == ("0", job["id"], 0, 1)
    assert (work["state"], work["client"], work["userattr"]) == ("checkout", client.id, {"k": "v"})
    assert "notes" not in work
    assert awe.job(job["id"])["state"] == "in-progress"
    assert client.refused() == "Server queue is empty"
    client.finish(work, perf=b"{}", stdout=b"out", stderr=b"err")
    done = awe.wait(job["id"], "completed")
    assert (done["remaintasks"], done["registered"]) == (0, False)
    assert done["tasks"][0]["remainwork"] == 0
    assert done["tasks"][0]["computetime"] == 7


def test_a_client_that_sends_an_id_keeps_it(awe: AweCalls) -> None:
    own = "c0ffee00-0000-4000-8000-000000000001"
    client = awe.client(id=own)
    assert client.id == own
    assert awe.client(id=own).id == own
    assert awe.error("GET", "/work?client=nobody&available=1") == "Client not found"
    assert awe.error("GET", "/client/nobody?heartbeat") == "Client not found"


def test_base64_ids_are_decoded_and_later_reports_do_not_count(awe: AweCalls) -> None:
    client = awe.client()
    awe.submit(task(), clientgroups="docker")
    work = client.take()
    encoded = {"id": "base64:" + base64.b64encode(work["id"].encode()).decode()}
    client.finish(encoded)
    client.finish(encoded)
    client.finish(work, "fail")
    done = awe.wait(work["jobid"], "completed")
    assert done["tasks"][0]["state"] == "completed", "the later report does not count"


def test_only_the_holder_gets_the_private_environment(awe: AweCalls) -> None:
    client = awe.client()
    command = {"name": "x", "environ": {"public": {"A": "1"}, "private": {"KEY": "s3cret"}}}
    job = awe.submit(task(cmd=command, outputs={"o": {}}), clientgroups="docker")
    work = client.take()
    assert work["cmd"]["environ"] == {"public": {"A": "1"}}
    assert work["cmd"]["has_private_env"] is True
    assert "s3cret" not in json.dumps([work, job])
    answer = awe.send("GET", f"/work/{work['id']}?privateenv&client={client.id}")
    assert json.loads(answer.headers["privateenv"]) == {"KEY": "s3cret"}
    assert work["info"]["auth"] is True
    answer = awe.send("GET", f"/work/{work['id']}?datatoken&client={client.id}")
    token = answer.headers["datatoken"]
    assert token.startswith("smw_")
    other = awe.client(name="other")
    assert "does not hold" in awe.error("GET", f"/work/{work['id']}?privateenv&client={other.id}")


@pytest.mark.parametrize("kind", ["multipart/form-data", f"multipart/form-data; boundary={BOUNDARY}"])
def test_a_report_without_logs_is_accepted(awe: AweCalls, kind: str) -> None:
    client = awe.client()
    awe.submit(task(), clientgroups="docker")
    work = client.take()
    path = f"/awe/work/{work['id']}?status=done&client={client.id}&computetime=1&report"
    headers = {"content-type": kind, "authorization": f"CG_TOKEN {awe.token}"}
    assert awe.cloud.http("PUT", path, b"", token=None, headers=headers).status == 200
    awe.wait(work["jobid"], "completed")


def test_a_report_returns_the_state_of_the_workunit_in_protocol_terms(
    awe: AweCalls,
) -> None:
    one, two = awe.client(), awe.client(name="two")
    job = awe.submit(task(), clientgroups="docker")["id"]
    said = f"workunit {job}_0_0 reported: "
    assert one.report(one.take(), "fail").json["data"] == f"{said}queued"
    path = f"/work/{two.take()['id']}?status=done&client={two.id}&computetime=2.75&report"
    assert awe.data("PUT", path) == f"{said}completed"
    assert awe.wait(job, "completed")["tasks"][0]["computetime"] == 2
    assert "computetime" in awe.error("PUT", path.replace("2.75", "soon"))
    other = awe.submit(task(), clientgroups="docker", noretry=True)["id"]
    assert two.report(two.take(), "fail").json["data"] == f"workunit {other}_0_0 reported: suspend"


def test_a_job_is_suspended_with_lastfailed_and_notes_after_three_attempts(awe: AweCalls) -> None:
    job = awe.submit(task(), task("1", dependsOn=["0"]), clientgroups="docker")
    clients = [awe.client(name=f"c{at}") for at in range(3)]
    for client in clients:
        work = client.take()
        client.finish(work, "fail", worknotes=b"no such file", stderr=b"trace")
        assert client.refused() in ("No eligible workunit found", "Server queue is empty")
    found = awe.wait(job["id"], "suspend")
    assert found["lastfailed"] == f"{job['id']}_0_0"
    assert found["notes"].endswith(": no such file"), found["notes"]
    assert [each["state"] for each in found["tasks"]] == ["suspend", "pending"]
    assert found["remaintasks"] == 2
    skipped = awe.data("GET", f"/client/{clients[0].id}")
    assert skipped["skip_work"] == [f"{job['id']}_0_0"]
    assert (skipped["total_checkout"], skipped["total_failed"]) == (1, 1)


def test_noretry_and_permanent_failures_allow_one_attempt(awe: AweCalls) -> None:
    for info, status in (({"noretry": True}, "fail"), ({}, "failed-permanent")):
        job = awe.submit(task(), clientgroups="docker", **info)
        client = awe.client()
        client.finish(client.take(), status)
        assert awe.wait(job["id"], "suspend")["lastfailed"] == f"{job['id']}_0_0"


def test_five_failures_in_a_row_suspend_a_client(awe: AweCalls) -> None:
    client = awe.client()
    for _ in range(5):
        awe.submit(task(), clientgroups="docker")
        client.finish(client.take(), "failed-permanent")
    assert client.refused() == "Client suspended"
    assert awe.data("GET", f"/client/{client.id}")["Status"] == "suspend"


def test_a_client_serves_its_group_and_jobs_without_one(awe: AweCalls) -> None:
    client, green = awe.client("blue"), awe.client("green")
    awe.submit(task(), clientgroups="red,green")
    assert client.refused() in ("No eligible workunit found", "Server queue is empty")
    free = awe.submit(task())
    assert client.take()["jobid"] == free["id"]
    assert green.take()["info"]["clientgroups"] == "red,green"


def test_a_client_gets_only_work_that_fits_its_apps_and_free_space(awe: AweCalls) -> None:
    big = {"x": {"url": "http://data.example/x", "size": 2_000_000}}
    first = awe.submit(task(cmd={"name": "bowtie"}), clientgroups="docker")["id"]
    second = awe.submit(task(inputs=big), clientgroups="red")["id"]
    awe.wait_for_messages(first, second)
    assert awe.client(apps=["fgs"]).refused() == "No eligible workunit found"
    assert awe.client(apps=["bowtie"]).take()["cmd"]["name"] == "bowtie"
    client = awe.client("red")
    assert client.refused() == "No eligible workunit found"
    node = awe.data("POST", "/node", upload=b"x" * 1_000_000)["id"]
    awe.wait_for_messages(awe.submit(task(inputs={"x": {"node": node}}), clientgroups="red")["id"])
    assert client.refused() == "No eligible workunit found", "the space must exceed the size"


def test_workunits_of_higher_priority_are_checked_out_first(awe: AweCalls) -> None:
    client = awe.client()
    jobs = [awe.submit(task(), clientgroups="docker", priority=priority)["id"] for priority in (1, 7, 3)]
    awe.wait_for_messages(*jobs)
    assert [client.take()["jobid"] for _ in range(3)] == [jobs[1], jobs[2], jobs[0]]


def test_a_priority_that_another_process_added_is_served_in_order(awe: AweCalls) -> None:
    """A process that caches the group of a client does not know the queue of a new priority."""
    client = awe.client()
    cached = mill().groups.get("docker")
    assert cached is not None
    priorities = (1, 9, -2, 100)
    jobs = [awe.submit(task(), clientgroups="docker", priority=each)["id"] for each in priorities]
    awe.wait_for_messages(*jobs)
    mill().recent_groups.put("docker", cached, now_ms())
    assert [jobs.index(client.take()["jobid"]) for _ in jobs] == [3, 1, 0, 2]


def test_a_suspended_queue_gives_no_work(awe: AweCalls) -> None:
    client = awe.client()
    awe.data("PUT", "/queue?suspend")
    assert client.refused() == "Server queue is suspended"
    awe.data("PUT", "/queue?resume")
    assert client.refused() == "Server queue is empty"


def test_heartbeats_of_both_generations_say_what_to_discard(awe: AweCalls) -> None:
    client = awe.client()
    uuid = awe.cloud.http("GET", "/awe").json["uuid"]
    assert client.beat() == {"server-uuid": uuid}
    assert client.beat_with() == {"server-uuid": uuid}
    job = awe.submit(task(), clientgroups="docker")
    work = client.take()
    assert client.beat() == client.beat_with(work["id"]) == {"server-uuid": uuid}
    assert client.beat_with(work["id"], "gone_0_0")["discard"] == "gone_0_0"
    v1 = f"/v1/jobs/{job['definition']}/{job['trigger']}"
    assert awe.cloud.http("POST", f"{v1}:suspend", {}).status == 200
    assert client.beat_with(work["id"])["discard"] == work["id"]
    assert "discard" not in client.beat()
    client.finish(work)
    assert awe.job(job["id"])["state"] == "suspend"
    assert awe.cloud.http("POST", f"{v1}:resume", {}).status == 200
    again = client.take()
    assert again["id"] == work["id"]
    client.finish(again)
    awe.wait(job["id"], "completed")


def test_a_report_that_does_not_count_is_not_an_error(awe: AweCalls) -> None:
    """Newer clients repeat a report that is answered with an error indefinitely, and take no other work."""
    client, other = awe.client(), awe.client(name="other")
    job = awe.submit(task(), clientgroups="docker")["id"]
    work = client.take()
    answer = other.report(work, "fail")
    assert (answer.status, answer.json["error"]) == (200, None)
    assert "discarded" in answer.json["data"]
    assert awe.job(job)["state"] == "in-progress"
    awe.data("DELETE", f"/job/{job}?full")
    answer = client.report(work)
    assert (answer.status, answer.json["error"]) == (200, None)
    assert "discarded" in answer.json["data"]
    unknown = awe.send("PUT", f"/work/{work['id']}?status=done&client=nobody")
    assert (unknown.status, unknown.json["error"]) == (400, ["Client not found"])


def test_a_drained_client_is_instructed_to_stop(awe: AweCalls) -> None:
    client = awe.client()
    [worker] = awe.cloud.http("GET", "/v1/workers").json["items"]
    awe.cloud.http("POST", f"/v1/workers/{worker['id']}:drain", {})
    assert client.beat()["stop"] == client.id


def test_an_idle_client_costs_one_read_and_one_invocation_per_call(
    awe: AweCalls, faults: Faults, caplog: pytest.LogCaptureFixture
) -> None:
    client = awe.client()
    assert client.refused() == "Server queue is empty"
    client.beat()
    faults.meter.reset()
    caplog.clear()
    assert client.refused() == "Server queue is empty"
    client.beat()
    assert faults.meter.calls == {"dynamodb.GetItem": 2}
    assert not [record for record in caplog.records if record.levelname == "INFO"], "nor is it logged"


@pytest.mark.parametrize("header", [None, "CG_TOKEN sm_wrong", "Basic x", "CG_TOKEN", "xx"])
def test_calls_without_a_valid_token_are_refused_in_the_envelope(awe: AweCalls, header: str | None) -> None:
    client = awe.client()
    headers = {} if header is None else {"Authorization": header}
    for method, path in (
        ("GET", f"/client/{client.id}?heartbeat"),
        ("GET", f"/work?client={client.id}"),
        ("POST", "/job"),
        ("PUT", "/queue?suspend"),
    ):
        answer = awe.cloud.http(method, f"/awe{path}", b"{}", token=None, headers=headers)
        assert (answer.status, answer.json["status"], answer.json["data"]) == (401, 401, None)
        assert answer.json["error"]
