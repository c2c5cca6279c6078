"""Items hidden from a limited token: no list, count, error or action reveals them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from shardmill.api.routes import ROUTES, Route
from support.moto.cloud import Cloud
from support.moto.moto_cloud import moto_cloud
from support.scenarios.access import Caller, Callers
from support.scenarios.job_runner import JobRunner

OWN = {"job_name": "own-report", "trigger": "t1", "step_name": "a", "index": "0", "schedule_id": "s1"}
OWN |= {"number": "1", "name": "default"}
HIDDEN = re.compile(r"secret|vault|hr\b|mole|zebra", re.IGNORECASE)
LIMITS = [{"definitions": ["own-*"]}, {"applications": ["finance"]}, {"groups": ["default"]}]
READABLE = [
    route
    for route in ROUTES
    if (route.method, route.scope, route.awe) == ("GET", "read", False)
    and not {"worker_id"} & set(re.findall(r"<(\w+)>", route.path))
]


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    """A readable application, and a hidden one whose definition depends on it and uses another group."""
    with moto_cloud() as started:
        started.http("PUT", "/v1/groups/vault", {})
        runner = JobRunner(started)
        runner.define({"stepName": "a", "content": "x"}, name="own-report", appName="finance")
        hidden = {"appName": "hr", "workerGroup": "vault", "description": "zebra"}
        runner.define(
            {"stepName": "a", "content": "x"},
            name="secret",
            dependencies=[{"jobName": "own-report"}],
            **hidden,
        )
        worker = {"name": "mole", "groups": ["vault"], "host": "h", "cores": 1, "apps": ["*"], "slots": 1}
        assert started.http("POST", "/v1/workers", worker).status == 201
        for name in ("own-report", "secret"):
            assert started.http("PUT", f"/v1/schedules/{name}/s1", {"cron": "0 0 * * *"}).status == 201
            runner.submit(name=name, dataTime="2026-01-01T00:00:00Z")
        yield started


@pytest.fixture(scope="module")
def callers(cloud: Cloud) -> Callers:
    return Callers(cloud)


def path_of(route: Route) -> str:
    return re.sub(r"<(\w+)>", lambda found: OWN[found[1]], route.path)


@pytest.mark.parametrize("limit", LIMITS, ids=str)
@pytest.mark.parametrize("route", READABLE, ids=lambda route: route.path)
def test_no_answer_contains_hidden_items(callers: Callers, route: Route, limit: dict[str, Any]) -> None:
    answer = callers.with_scopes({"scope": "read", **limit})("GET", path_of(route))
    assert answer.status < 500
    assert not HIDDEN.search(answer.text), answer.text


@pytest.mark.parametrize("limit", LIMITS, ids=str)
def test_lists_contain_only_visible_items(callers: Callers, limit: dict[str, Any]) -> None:
    caller = callers.with_scopes({"scope": "read", **limit})
    for path in ("/v1/jobs", "/v1/definitions", "/v1/schedules"):
        assert {each["jobName"] for each in caller.items(path)} == {"own-report"}
    now = caller("GET", "/v1/now").json
    assert {each["jobName"] for each in now["schedules"]} == {"own-report"}


@pytest.fixture(scope="module")
def weak(callers: Callers) -> Caller:
    """A token with every scope for its own definitions, and none for others."""
    scopes = ["read", "submit", "operate", "define"]
    return callers.with_scopes(*({"scope": scope, "definitions": ["own-*"]} for scope in scopes), owner="eve")


@pytest.mark.parametrize("fields", [{}, {"params": {"a": "b"}}, {"steps": [{"stepName": "nope"}]}], ids=str)
def test_a_batch_reports_hidden_definitions_as_missing(weak: Caller, fields: dict[str, Any]) -> None:
    requests = [{"jobName": name, "trigger": "t1", **fields} for name in ("secret", "absent")]
    hidden, missing = weak("POST", "/v1/jobs:batch", {"requests": requests}).json["items"]
    assert hidden["status"] == missing["status"] == 404
    assert str(hidden).replace("secret", "absent") == str(missing)


@pytest.mark.parametrize("limit", LIMITS, ids=str)
@pytest.mark.parametrize(
    "fields",
    [{}, {"trigger": "t1"}, {"steps": [{"stepName": "a", "workerGroups": ["default"]}]}],
    ids=str,
)
def test_a_request_reports_a_hidden_definition_as_missing(
    callers: Callers, limit: dict[str, Any], fields: dict[str, Any]
) -> None:
    """Also if the request would move all of its steps to groups that the token may use."""
    caller = callers.with_scopes("operate", {"scope": "submit", **limit}, {"scope": "read", **limit})
    requests = [{"jobName": name, "trigger": "t7", **fields} for name in ("secret", "absent")]
    hidden, missing = (caller("POST", "/v1/jobs", request) for request in requests)
    assert (hidden.status, hidden.json["code"]) == (404, "definition-not-found")
    assert hidden.text.replace("secret", "absent") == missing.text


@pytest.mark.parametrize("limit", LIMITS, ids=str)
def test_a_request_for_a_definition_that_the_token_may_only_read_gets_403(
    callers: Callers, limit: dict[str, Any]
) -> None:
    caller = callers.with_scopes("read", {"scope": "submit", **limit})
    requests = [{"jobName": name, "trigger": "t8"} for name in ("secret", "absent")]
    answers = [caller("POST", "/v1/jobs", request).json["code"] for request in requests]
    assert answers == ["forbidden", "definition-not-found"]
    items = caller("POST", "/v1/jobs:batch", {"requests": requests}).json["items"]
    assert [each["problem"]["code"] for each in items] == answers


def test_a_bound_group_is_enough_to_submit_and_its_name_is_hidden_from_others(
    cloud: Cloud, callers: Callers
) -> None:
    JobRunner(cloud).define({"stepName": "a", "type": "hive", "content": "x"}, name="own-hive")
    assert cloud.http("PUT", "/v1/groups/vault", {"types": ["hive"]}).status == 200
    request = {"jobName": "own-hive", "trigger": "t1"}
    refused = callers.with_scopes({"scope": "submit", "groups": ["default"]})("POST", "/v1/jobs", request)
    assert (refused.status, HIDDEN.search(refused.text)) == (403, None)
    allowed = callers.with_scopes({"scope": "submit", "groups": ["vault"]})("POST", "/v1/jobs", request)
    assert allowed.status == 202
    assert cloud.http("PUT", "/v1/groups/vault", {"types": []}).status == 200


def test_a_rerun_with_hidden_dependents_is_refused_without_naming_them(weak: Caller) -> None:
    answer = weak("POST", "/v1/jobs/own-report/t1:rerun", {"scope": "all", "dependents": True})
    assert answer.status == 403
    assert not HIDDEN.search(answer.text)
    assert weak.items("/v1/jobs/own-report/t1/dependents") == []


def test_a_definition_with_hidden_dependents_is_not_deleted_and_they_are_not_named(weak: Caller) -> None:
    answer = weak("DELETE", "/v1/definitions/own-report")
    assert (answer.status, answer.json["code"]) == (409, "definition-in-use")
    assert not HIDDEN.search(answer.text)


def test_a_dependency_on_a_hidden_definition_is_reported_as_missing(weak: Caller) -> None:
    answers = []
    for parent in ("secret", "absent"):
        document = {"steps": [{"stepName": "a", "content": "x"}], "dependencies": [{"jobName": parent}]}
        answers.append(weak("PUT", "/v1/definitions/own-new", document))
    assert answers[0].status == answers[1].status == 422
    assert answers[0].text.replace("secret", "absent") == answers[1].text


def test_a_cycle_through_hidden_definitions_does_not_name_them(callers: Callers) -> None:
    scopes = [
        {"scope": "define", "definitions": ["own-*", "secret"]},
        {"scope": "read", "definitions": ["own-*"]},
    ]
    document = {
        "appName": "finance",
        "steps": [{"stepName": "a", "content": "x"}],
        "dependencies": [{"jobName": "secret"}],
    }
    answer = callers.with_scopes(*scopes)("PUT", "/v1/definitions/own-report", document)
    assert answer.json["faults"][0]["code"] == "cyclic-jobs"


def test_groups_outside_the_limit_cannot_be_used_through_requests_schedules_or_changes(
    callers: Callers,
) -> None:
    scopes = ("read", "submit", "operate", "define")
    caller = callers.with_scopes(*({"scope": scope, "groups": ["default"]} for scope in scopes))
    steps = [{"stepName": "a", "workerGroups": ["vault"]}]
    request = {"jobName": "own-report", "trigger": "t9", "steps": steps}
    assert caller("POST", "/v1/jobs", request).status == 403
    assert caller("POST", "/v1/jobs:batch", {"requests": [request]}).json["items"][0]["status"] == 403
    schedule = {"cron": "0 0 * * *", "steps": steps}
    assert caller("PUT", "/v1/schedules/own-report/s2", schedule).status == 403
    assert caller("POST", "/v1/jobs/own-report/t1:group", {"workerGroups": ["vault"]}).status == 403
    document = {"appName": "finance", "steps": [{"stepName": "a", "content": "x", "workerGroup": "vault"}]}
    assert caller("PUT", "/v1/definitions/own-report", document).status == 403


@pytest.fixture(scope="module")
def finance(callers: Callers) -> Caller:
    """A token with every scope for one application."""
    scopes = ("read", "submit", "operate", "define")
    return callers.with_scopes(*({"scope": scope, "applications": ["finance"]} for scope in scopes))


def private(value: str) -> dict[str, Any]:
    command = {"name": "./load", "environ": {"private": {"KEY": value}}}
    return {"stepName": "a", "command": command}


def test_versions_of_another_application_stay_hidden_when_a_name_is_used_again(
    cloud: Cloud, finance: Caller
) -> None:
    """Versions stay when a definition is deleted, and its private values with them."""
    runner = JobRunner(cloud)
    runner.define(private("pr1vate"), name="reused", appName="hr", description="zebra")
    assert cloud.http("DELETE", "/v1/definitions/reused").status == 204
    plain = {"appName": "finance", "steps": [{"stepName": "a", "content": "x"}]}
    assert finance("PUT", "/v1/definitions/reused", plain).json["version"] == 2
    assert [each["version"] for each in finance.items("/v1/definitions/reused/versions")] == [2]
    answer = finance("GET", "/v1/definitions/reused?version=1")
    missing = finance("GET", "/v1/definitions/reused?version=9")
    assert answer.status == missing.status == 404
    assert answer.text == missing.text.replace("9", "1")
    masked = {"appName": "finance", "version": 1, "steps": [private("********")]}
    answer = finance("PUT", "/v1/definitions/reused", masked)
    assert [each["pointer"] for each in answer.json["faults"]] == ["/steps/0/command/environ/private/KEY"]
    checked = finance("POST", "/v1/definitions:validate", {"jobName": "reused", **masked})
    assert checked.json["valid"] is False
    assert cloud.http("GET", "/v1/definitions/reused?version=1").json["description"] == "zebra"


def test_a_repeated_request_does_not_show_a_job_of_another_application(cloud: Cloud, finance: Caller) -> None:
    """The definition moved to another application; its jobs did not."""
    runner = JobRunner(cloud)
    runner.define({"stepName": "a", "content": "x"}, name="moved", appName="hr")
    runner.submit(name="moved", params={"who": "zebra"})
    runner.define({"stepName": "a", "content": "x"}, name="moved", appName="finance")
    request = {"jobName": "moved", "trigger": "t1", "params": {"who": "zebra"}}
    answers = [finance("POST", "/v1/jobs", {**request, "params": {"who": who}}) for who in ("zebra", "else")]
    assert [(each.status, each.json["code"]) for each in answers] == [(409, "trigger-taken")] * 2
    assert answers[0].text == answers[1].text
    [item] = finance("POST", "/v1/jobs:batch", {"requests": [request]}).json["items"]
    assert (item["status"], item["job"]) == (409, None)
    assert cloud.http("POST", "/v1/jobs", request).status == 200


def test_a_firing_does_not_show_a_job_of_another_application(cloud: Cloud, finance: Caller) -> None:
    runner = JobRunner(cloud)
    runner.define({"stepName": "a", "content": "x"}, name="fired", appName="hr")
    assert cloud.http("PUT", "/v1/schedules/fired/s1", {"cron": "0 0 1 1 *"}).status == 201
    fire, body = "/v1/schedules/fired/s1:fire", {"dataTime": "2026-01-01T00:00:00Z"}
    assert cloud.http("POST", fire, body).status == 202
    runner.define({"stepName": "a", "content": "x"}, name="fired", appName="finance")
    answer = finance("POST", fire, body)
    assert (answer.status, answer.json["code"]) == (409, "trigger-taken")
    assert cloud.http("POST", fire, body).status == 200


def test_a_group_that_hidden_jobs_use_is_not_deleted_and_they_are_not_named(
    cloud: Cloud, callers: Callers
) -> None:
    assert cloud.http("PUT", "/v1/groups/shared", {}).status == 201
    runner = JobRunner(cloud)
    runner.define({"stepName": "a", "content": "x", "workerGroup": "shared"}, name="secret-2", appName="hr")
    runner.submit(name="secret-2")
    caller = callers.with_scopes(
        {"scope": "define", "groups": ["shared"]}, {"scope": "read", "groups": ["own"]}
    )
    answer = caller("DELETE", "/v1/groups/shared")
    assert (answer.status, answer.json["code"]) == (409, "group-in-use")
    assert not HIDDEN.search(answer.text)
    assert "secret-2/t1" in cloud.http("DELETE", "/v1/groups/shared").text
