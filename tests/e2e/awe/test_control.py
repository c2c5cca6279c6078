"""Control of jobs, clients and client groups by the calls of the AWE protocol, on the laptop cloud."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.awe.client import Client09, Worker20
from support.awe.documents import MakeClient, completed, document, serve, task
from support.awe.submitter import Submitter
from support.waits import run_until


def chain(group: str, counts: Path) -> str:
    """Three tasks in a row; each notes that it ran, and extends what the one before made."""

    def link(number: int) -> dict[str, Any]:
        made = {"filename": f"out{number}"}
        if number == 0:
            return task(0, "sh", f"-c 'echo x >> {counts}/0; echo 0 > out0'", outputs=[made])
        before = {"filename": f"out{number - 1}", "origin": str(number - 1)}
        command = f"-c 'echo x >> {counts}/{number}; (cat @out{number - 1}; echo {number}) > out{number}'"
        return task(number, "sh", command, inputs=[before], outputs=[made], dependsOn=[str(number - 1)])

    return document(group, *map(link, range(3)))


def test_recompute_and_resubmit_repeat_the_expected_tasks(
    submitter: Submitter, make_client: MakeClient, tmp_path: Path
) -> None:
    client = make_client(Worker20, "recompute")
    job = submitter.submit(chain("recompute", tmp_path))

    def ran() -> list[int]:
        return [len((tmp_path / str(number)).read_text().split()) for number in range(3)]

    serve(client, completed(submitter, job))
    assert ran() == [1, 1, 1]
    assert job in submitter.call("PUT", f"/job/{job}?recompute=1").data
    serve(client, lambda: ran() == [1, 2, 2] and completed(submitter, job)())
    assert submitter.output(submitter.job(job), 2, "out2") == b"0\n1\n2\n"
    assert job in submitter.call("PUT", f"/job/{job}?resubmit").data
    serve(client, lambda: ran() == [2, 3, 3] and completed(submitter, job)())
    assert submitter.output(submitter.job(job), 2, "out2") == b"0\n1\n2\n"


def test_a_job_is_suspended_resumed_and_deleted(submitter: Submitter, make_client: MakeClient) -> None:
    client = make_client(Client09, "pausing")
    job = submitter.submit(document("pausing", task(0, "true", "")))
    work = client.take()
    assert submitter.call("PUT", f"/job/{job}?suspend").data == f"job suspended: {job}"
    assert submitter.wait(job, "suspend")
    assert run_until(lambda: client.heartbeat().get("discard"), 10, interval=0.2) == work["id"]
    assert submitter.call("PUT", f"/job/{job}?resume").data == f"job resumed: {job}"
    assert serve(client, completed(submitter, job)) == ["done"]
    assert submitter.call("DELETE", f"/job/{job}?full").data == f"job deleted: {job}"
    assert submitter.call("GET", f"/job/{job}").status == 404


def test_a_client_is_suspended_and_resumed(submitter: Submitter, make_client: MakeClient) -> None:
    client = make_client(Client09, "paused")
    job = submitter.submit(document("paused", task(0, "true", "")))
    assert submitter.call("PUT", f"/client/{client.id}?suspend").status == 200
    assert client.checkout() == "Client suspended"
    assert submitter.call("GET", f"/client/{client.id}").data["Status"].startswith("suspend")
    assert submitter.call("PUT", f"/client/{client.id}?resume").status == 200
    assert serve(client, completed(submitter, job)) == ["done"]
    found = submitter.call("GET", f"/client/{client.id}").data
    assert (found["total_checkout"], found["total_completed"], found["total_failed"]) == (1, 1, 0)


def test_a_client_registers_with_the_token_of_its_group(
    submitter: Submitter, make_client: MakeClient
) -> None:
    group = submitter.call("POST", "/cgroup/labs").data
    token = submitter.call("PUT", f"/cgroup/{group['id']}/token").data["token"]
    other = make_client(Worker20, "others")
    client = Worker20(other.url, token, "labs", other.folder / "labs", other.programs)
    client.register()
    job = submitter.submit(document("labs", task(0, "true", "")))
    assert serve(client, completed(submitter, job)) == ["done"]
    assert submitter.call("DELETE", f"/cgroup/{group['id']}/token").status == 200
