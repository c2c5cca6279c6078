"""Failures, lost work, suspension and tokens, with AWE clients of both generations on the laptop cloud."""

from __future__ import annotations

import http.client
from typing import Any
from urllib.parse import urlsplit

import pytest

from support.awe.client import GENERATIONS, AweClient, Client09, Worker20
from support.awe.documents import MakeClient, completed, document, serve, task
from support.awe.submitter import Submitter
from support.laptop import Laptop
from support.waits import run_until


def control(laptop: Laptop, job: dict[str, Any], action: str) -> None:
    path = f"/v1/jobs/{job['definition']}/{job['trigger']}:{action}"
    answer = laptop.request("POST", path, {})
    assert answer.is_success, answer.text


def test_a_unit_fails_three_times_and_its_job_is_resumed(
    laptop: Laptop, submitter: Submitter, make_client: MakeClient, tmp_path: Any
) -> None:
    group = "failing"
    clients = [make_client(kind, group) for kind in (Client09, Worker20, Client09)]
    fixed = tmp_path / "fixed"
    job = submitter.submit(
        document(
            group, task(0, "sh", f"-c 'echo tried; test -e {fixed} && echo ok > out'", outputs={"out": {}})
        )
    )
    for number, client in enumerate(clients, 1):
        work = client.take()
        assert (work["id"], work["failed"]) == (f"{job}_0_0", number - 1)
        assert client.run(work) == "fail"
        assert client.checkout() != work, "it is in the client's skip_work"
    failed = submitter.wait(job, "suspend")
    assert failed["lastfailed"] == f"{job}_0_0"
    assert "the command failed on" in failed["notes"]
    assert [each["state"] for each in failed["tasks"]] == ["suspend"]
    fixed.touch()
    control(laptop, failed, "resume")
    fresh = make_client(Worker20, group)
    assert serve(fresh, completed(submitter, job)) == ["done"]
    ended = submitter.job(job)
    assert submitter.output(ended, 0, "out") == b"ok\n"
    assert ended["remaintasks"] == 0


@pytest.mark.parametrize("kind", GENERATIONS, ids=lambda kind: kind.__name__)
def test_a_client_discards_the_units_of_a_suspended_job(
    laptop: Laptop, submitter: Submitter, make_client: MakeClient, kind: type[AweClient]
) -> None:
    group = f"discard-{kind.__name__}"
    client = make_client(kind, group)
    job = submitter.submit(document(group, task(0, "true", "")))
    work = client.take()
    beat = client.heartbeat()
    assert beat.keys() == {"server-uuid"}
    control(laptop, submitter.job(job), "suspend")
    discarded = run_until(lambda: client.heartbeat().get("discard"), 10, interval=0.2)
    assert discarded == work["id"]
    client.work.clear()
    assert "discard" not in client.heartbeat()
    late = client.report(work["id"], "done")
    assert (late.status, late.data) == (200, f"workunit {work['id']} reported: discarded")
    control(laptop, submitter.job(job), "resume")
    assert serve(client, completed(submitter, job)) == ["done"]


def test_a_suspended_client_gets_no_work_until_it_is_resumed(
    laptop: Laptop, submitter: Submitter, make_client: MakeClient
) -> None:
    group = "suspended"
    client = make_client(Client09, group)
    job = submitter.submit(document(group, task(0, "true", "")))
    listed = laptop.request("GET", "/v1/workers?limit=1000").json()["items"]
    [worker] = [each for each in listed if each["name"] == client.id]
    assert laptop.request("POST", f"/v1/workers/{worker['id']}:suspend", {}).is_success
    assert client.checkout() == "Client suspended"
    assert laptop.request("POST", f"/v1/workers/{worker['id']}:resume", {}).is_success
    assert serve(client, completed(submitter, job)) == ["done"]


def test_a_client_is_rejected_with_the_token_of_another_group(
    submitter: Submitter, make_client: MakeClient
) -> None:
    mine, other = make_client(Worker20, "tokens-a"), make_client(Worker20, "tokens-b")
    job = submitter.submit(document("tokens-a", task(0, "true", "")))
    work = mine.take()
    for name, value in [("token", other.token), ("token", "sm_wrong"), ("id", "unknown")]:
        impostor = Worker20(mine.url, mine.token, mine.group, mine.folder, mine.programs, id=mine.id)
        setattr(impostor, name, value)
        answer = impostor.heartbeat().get("error", "")
        assert answer, name
        assert impostor.report(work["id"], "done").status in (400, 401, 403, 404), name
    assert other.checkout() in ("Server queue is empty", "No eligible workunit found")
    unknown = Worker20(mine.url, mine.token, mine.group, mine.folder, mine.programs)
    assert unknown.heartbeat() == {"error": "Client not found"}
    assert unknown.checkout() == "Client not found"
    assert mine.run(work) == "done"
    submitter.wait(job, "completed")


def test_http_variants_of_awe_clients_are_accepted(submitter: Submitter, make_client: MakeClient) -> None:
    """Trailing slashes, header case, `Expect: 100-continue`, unknown parameters and empty forms."""
    client = make_client(Client09, "quirks")
    job = submitter.submit(document("quirks", task(0, "true", ""), some_new_field="x"))
    parts = urlsplit(client.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=20)
    connection.putrequest("GET", f"{parts.path}/client/{client.id}/?heartbeat&unknown=1")
    connection.putheader("AUTHORIZATION", f"cg_token {client.token}")
    connection.putheader("EXPECT", "100-continue")
    connection.endheaders()
    assert connection.getresponse().status == 200
    connection.close()
    work = client.take()
    assert client.call("PUT", f"/work/{work['id']}/?status=done&client={client.id}&report", {}).status == 200
    submitter.wait(job, "completed")
    assert client.call("GET", "//job//" + job).status in (200, 403)
    assert client.call("GET", "/work/base64:!!!?datatoken&client=" + client.id).status == 404
