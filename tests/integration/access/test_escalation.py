"""A limited token that tries to exceed its scopes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from shardmill.engine import definitions
from shardmill.engine.access.errors import Forbidden
from shardmill.engine.mill import mill
from shardmill.model.access.grants import Grant
from shardmill.model.actor import Actor
from support.moto.cloud import Cloud
from support.moto.moto_cloud import moto_cloud
from support.scenarios.access import Caller, Callers
from support.scenarios.job_runner import JobRunner

SCOPES = ("read", "submit", "operate", "define")
MASK = "********"


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    with moto_cloud() as started:
        for group in ("own", "vault"):
            assert started.http("PUT", f"/v1/groups/{group}", {}).status == 201
        yield started


@pytest.fixture(scope="module")
def caller(cloud: Cloud) -> Caller:
    """A token with every scope for one group."""
    return Callers(cloud).with_scopes(*({"scope": scope, "groups": ["own"]} for scope in SCOPES))


def document(group: str, private: str) -> dict[str, Any]:
    """A document of the AWE protocol."""
    cmd = {"name": "./load", "args": "", "environ": {"private": {"KEY": private}}}
    task = {"taskid": "0", "cmd": cmd, "inputs": {}, "outputs": {}, "totalwork": 1}
    return {"info": {"name": "n", "pipeline": "p", "clientgroups": group}, "tasks": [task]}


def test_a_document_does_not_replace_a_definition_that_the_token_may_not_define(
    cloud: Cloud, caller: Caller
) -> None:
    assert cloud.http("POST", "/awe/job", document("vault", "pr1vate")).status == 200
    answer = caller("POST", "/awe/job", document("own", MASK))
    assert answer.status == 403
    known = cloud.http("GET", "/v1/definitions/awe-p").json
    assert (known["version"], known["workerGroups"]) == (1, ["vault"])
    assert caller("POST", "/awe/job", {**document("own", "x"), "info": {"pipeline": "q"}}).status == 403
    mine = document("own", "x")
    mine["info"]["pipeline"] = "mine"
    assert [caller("POST", "/awe/job", mine).status for _ in range(2)] == [200, 200]


@pytest.mark.parametrize("app", ["", "hr"])
def test_a_token_without_define_does_not_overwrite_a_concurrently_saved_definition(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, app: str
) -> None:
    """Another caller saves the definition between the check of the route and the write."""
    name = f"raced-{app}"
    actor = Actor("eve", (Grant("define", applications=("finance",)),), "t")
    plain = {"jobName": name, "appName": "finance", "steps": [{"stepName": "a", "content": "x"}]}
    store = mill().definitions
    save = store.save

    def save_late(*args: Any, **values: Any) -> Any:
        monkeypatch.undo()
        assert cloud.http("PUT", f"/v1/definitions/{name}", plain | {"appName": app or None}).status == 201
        return save(*args, **values)

    monkeypatch.setattr(type(store), "save", lambda _, *args, **values: save_late(*args, **values))
    with pytest.raises(Forbidden):
        definitions.save(mill(), name, plain, actor, now=1)
    assert cloud.http("GET", f"/v1/definitions/{name}").json["version"] == 1


def test_a_backfill_uses_no_groups_that_a_firing_may_not_use(cloud: Cloud, caller: Caller) -> None:
    runner = JobRunner(cloud)
    runner.define({"stepName": "a", "content": "x", "workerGroup": "own"}, name="nightly")
    schedule = {"cron": "0 0 * * *", "steps": [{"stepName": "a", "workerGroups": ["vault"]}]}
    assert cloud.http("PUT", "/v1/schedules/nightly/s1", schedule).status == 201
    body = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-03T00:00:00Z"}
    for action, request in (("fire", None), ("backfill", body), ("backfill?dryRun=true", body)):
        answer = caller("POST", f"/v1/schedules/nightly/s1:{action}", request)
        assert (answer.status, answer.json["code"]) == (403, "forbidden"), action
    assert runner.cloud.http("GET", "/v1/jobs?jobName=nightly").json["items"] == []
    assert cloud.http("POST", "/v1/schedules/nightly/s1:backfill", body).status == 202


def test_a_definition_and_a_group_of_different_scopes_are_not_combined(cloud: Cloud) -> None:
    """Two scopes do not add up: one of them must cover the definition and the group."""
    runner = JobRunner(cloud)
    runner.define({"stepName": "a", "content": "x", "workerGroup": "own"}, name="narrow")
    runner.submit(name="narrow")
    schedule = {"cron": "0 0 * * *", "steps": [{"stepName": "a", "workerGroups": ["vault"]}]}
    assert cloud.http("PUT", "/v1/schedules/narrow/s1", schedule).status == 201
    limits = ({"definitions": ["narrow"], "groups": ["own"]}, {"definitions": ["wide"], "groups": ["vault"]})
    scopes = [{"scope": scope, **limit} for scope in SCOPES for limit in limits]
    caller = Callers(cloud).with_scopes(*scopes)
    body = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-03T00:00:00Z"}
    job_id = cloud.http("GET", "/v1/jobs/narrow/t1").json["id"]
    for method, path, request in (
        ("POST", "/v1/jobs", {"jobName": "narrow", "trigger": "t2", "steps": schedule["steps"]}),
        ("POST", "/v1/jobs/narrow/t1:group", {"workerGroups": ["vault"]}),
        ("POST", "/v1/jobs/narrow/t1:change", {"workerGroups": ["vault"]}),
        ("PUT", f"/awe/job/{job_id}?clientgroup=vault", None),
        ("PUT", "/v1/schedules/narrow/s2", schedule),
        ("POST", "/v1/schedules/narrow/s1:backfill", body),
    ):
        assert caller(method, path, request).status == 403, path
    assert cloud.http("GET", "/v1/jobs/narrow/t1").json["workerGroups"] == ["own"]
    assert caller("POST", "/v1/jobs/narrow/t1:group", {"workerGroups": ["own"]}).status == 200


def test_the_same_owner_does_not_widen_a_scope_in_the_node_store(cloud: Cloud) -> None:
    callers = Callers(cloud)
    ann = callers.with_scopes("read", "submit", "define", owner="ann")
    made = document("default", "x")
    made["tasks"][0]["outputs"] = {"out": {"host": "http://test.execute-api.us-east-1.amazonaws.com/awe"}}
    answer = ann("POST", "/awe/job", made | {"info": {"pipeline": "node-store"}})
    assert answer.status == 200, answer
    job_id = answer.json["data"]["id"]
    runner = JobRunner(cloud)
    cloud.run_until(lambda: "READY" in runner.states(job_id, "awe-node-store").values(), 20)
    node = f"/awe/node/{job_id}_0_0"
    assert ann("GET", node).status == 200
    for limit, status in (({"definitions": ["awe-node-*"]}, 200), ({"definitions": ["other"]}, 404)):
        limited = callers.with_scopes({"scope": "submit", **limit}, owner="ann")
        assert limited("GET", node).status == status, limit
        form = b'--b\r\nContent-Disposition: form-data; name="upload"; filename="f"\r\n\r\nx\r\n--b--\r\n'
        headers = {
            "content-type": "multipart/form-data; boundary=b",
            "authorization": f"OAuth {limited.token}",
        }
        stored = cloud.http("PUT", node, form, token=None, headers=headers)
        assert (stored.status == 404) is (status == 404), stored


def test_types_that_are_bound_to_a_group_need_a_scope_for_it(cloud: Cloud, caller: Caller) -> None:
    """Jobs of a schedule start without a check, and such a group goes before those of the definition."""
    plain = {"workerGroup": "own", "steps": [{"stepName": "a", "type": "hive", "content": "x"}]}
    assert caller("PUT", "/v1/definitions/bound", plain).status == 201
    assert cloud.http("PUT", "/v1/groups/vault", {"types": ["hive"]}).status == 200
    schedule = {"cron": "0 0 * * *"}
    for method, path, body in (
        ("PUT", "/v1/definitions/bound", plain),
        ("PUT", "/v1/definitions/bound-2", plain),
        ("PUT", "/v1/schedules/bound/s1", schedule),
        ("POST", "/v1/jobs", {"jobName": "bound", "trigger": "t1"}),
    ):
        assert caller(method, path, body).status == 403, path
    assert cloud.http("PUT", "/v1/schedules/bound/s1", schedule).status == 201
    body = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-03T00:00:00Z"}
    assert caller("POST", "/v1/schedules/bound/s1:backfill", body).status == 403
    assert cloud.http("PUT", "/v1/groups/vault", {"types": []}).status == 200
    assert caller("PUT", "/v1/schedules/bound/s1", schedule).status == 200
