"""An API with ten jobs of four definitions, for tests of commands for many jobs."""

from typing import Any

import pytest

from support.fakes.api import FakeApi, Reply, Request, job, page

DAY = "2026-01-0{}T00:00:00.000Z"
JOBS = [
    job(state, jobName=name, trigger=f"t{jid}", jid=jid, **{field: DAY.format(day)})
    for name, jid, state, field, day in (
        ("report", 6, "RUNNING", "dataTime", 6),
        ("report", 5, "SUSPENDED", "dataTime", 5),
        ("report", 4, "FAILED", "dataTime", 4),
        ("report", 3, "SUCCESS", "dataTime", 3),
        ("mail", 2, "WAITING", "dataTime", 6),
        ("mail", 1, "QUEUED", "createTime", 5),
        ("audit", 7, "INIT", "dataTime", 6),
        ("audit", 8, "INIT", "dataTime", 5),
        ("audit", 9, "SUCCESS", "dataTime", 6),
        ("lonely", 10, "KILLED", "dataTime", 6),
    )
]
EDGES = [("report", "mail"), ("mail", "audit"), ("audit", "audit")]
STATES = {
    "suspend": "SUSPENDED",
    "resume": "RUNNING",
    "kill": "KILLED",
    "rerun": "INIT",
    "recompute": "INIT",
    "force": "SUCCESS",
    "change": "RUNNING",
    "priority": "RUNNING",
}


@pytest.fixture
def api() -> FakeApi:
    api = FakeApi()
    api.on("GET", "/v1/jobs", _list)
    edges = [{"parent": parent, "child": child} for parent, child in EDGES]
    api.on("GET", "/v1/definitions:graph", {"nodes": [], "edges": edges})
    api.on("POST", "/v1/jobs:dry-run", _dry_run)
    for each in JOBS:
        path = f"/v1/jobs/{each['jobName']}/{each['trigger']}"
        api.on("GET", path, each)
        api.on("DELETE", path, Reply(status=204))
        for verb, state in STATES.items():
            api.on("POST", f"{path}:{verb}", _in_state(state))
    return api


def _list(request: Request) -> dict[str, Any]:
    query = {name: request.query[name] for name in ("jobName", "state") if name in request.query}
    return page(*(each for each in JOBS if query.items() <= each.items()))


def _in_state(state: str) -> Any:
    """A reply for any job, with the job in this state."""

    def reply(request: Request) -> dict[str, Any]:
        _, _, _, name, rest = request.path.split("/")
        return job(state, jobName=name, trigger=rest.partition(":")[0], run=2)

    return reply


def _dry_run(request: Request) -> dict[str, Any]:
    """Each job would change."""
    known = {(each["jobName"], each["trigger"]): each["state"] for each in JOBS}
    sentences = [f"{request.document['action']} changes it."]
    items = []
    for one in request.document["jobs"]:
        state = known[one["jobName"], one["trigger"]]
        effect = {**one, "state": state, "becomes": state, "changes": True, "run": 1, "sentences": sentences}
        items.append({**one, "status": 200, "effect": effect})
    return {"items": items}
