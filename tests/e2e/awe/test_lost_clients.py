"""AWE clients that stop sending heartbeats: one minute of real time, for both generations at once."""

from __future__ import annotations

import pytest

from support.awe.client import GENERATIONS, Worker20
from support.awe.documents import MakeClient, document, task
from support.awe.submitter import Submitter
from support.waits import run_until

GROUP = "silent"


@pytest.mark.timeout(300)
def test_clients_that_are_silent_lose_their_units_to_another_without_a_failure(
    submitter: Submitter, make_client: MakeClient
) -> None:
    silent = [make_client(kind, GROUP) for kind in GENERATIONS]
    jobs = [submitter.submit(document(GROUP, task(0, "true", ""))) for _ in silent]
    units = [client.take() for client in silent]
    other = make_client(Worker20, GROUP)
    taken: dict[str, int] = {}

    def take() -> bool:
        assert "error" not in other.heartbeat()
        work = other.checkout()
        if isinstance(work, dict):
            taken[work["id"]] = work["failed"]
            assert other.run(work) == "done"
        return len(taken) == len(units)

    run_until(take, 200, interval=1, describe=lambda: taken)
    assert taken == {work["id"]: 0 for work in units}
    for client, work in zip(silent, units, strict=True):
        assert client.heartbeat().get("discard") == work["id"]
        late = client.report(work["id"], "fail")
        assert (late.status, late.data) == (200, f"workunit {work['id']} reported: discarded")
    for job in jobs:
        assert submitter.wait(job, "completed")["remaintasks"] == 0
