"""The SDK against a fake API."""

import inspect
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import get_args, get_type_hints

import httpx
import pytest
from pydantic import BaseModel

import shardmill
from shardmill.client import http as client_http
from shardmill.client.calls import new_trigger
from shardmill.client.client import Client
from shardmill.client.errors import (
    BadAnswer,
    BadName,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    PreconditionFailed,
    ServerError,
    ShardmillError,
    Throttled,
    Unauthorized,
    Unreachable,
)
from shardmill.model.definition.fields import Info, JobDefine
from shardmill.model.states import JobState, TaskState
from support.fakes.api import TOKEN, FakeApi, Reply, job, listed, page, problem, saved, step, task

URL = "http://127.0.0.1:1/base"


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def client(api: FakeApi, sleeps: list[float]) -> Iterator[Client]:
    with Client(URL, TOKEN, transport=api.transport()) as started:
        yield started


@pytest.fixture
def sleeps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Record the delays between attempts instead of sleeping."""
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    return slept


def test_submit_sends_the_whole_request(api: FakeApi, client: Client) -> None:
    api.on("POST", "/base/v1/jobs", Reply(job("INIT"), 202))
    submitted = client.submit(
        "report",
        "t1",
        {"date": "2020-01-21", "n": 3},
        {"main": {"k": "v"}},
        datetime(2020, 1, 21, 8, tzinfo=UTC),
        priority=10,
        execute_user="bob",
        info=Info(project="p"),
    )
    assert submitted.state is JobState.INIT
    assert submitted.trigger == "t1"
    assert api.requests[0].document == {
        "jobName": "report",
        "trigger": "t1",
        "params": {"date": "2020-01-21", "n": 3},
        "steps": [{"stepName": "main", "params": {"k": "v"}}],
        "dataTime": "2020-01-21T08:00:00.000Z",
        "priority": 10,
        "executeUser": "bob",
        "info": {"project": "p"},
    }
    assert api.requests[0].headers["authorization"] == f"Bearer {TOKEN}"
    assert api.requests[0].headers["content-type"] == "application/json"


def test_submit_omits_unset_fields_and_generates_a_trigger(api: FakeApi, client: Client) -> None:
    api.on("POST", "/base/v1/jobs", Reply(job("INIT"), 202))
    client.submit("report")
    sent = api.requests[0].document
    assert set(sent) == {"jobName", "trigger"}
    assert re.fullmatch(r"\d{8}T\d{9}Z", sent["trigger"])


@pytest.mark.parametrize(("status", "new"), [(202, True), (200, False)])
def test_submit_returns_whether_the_job_is_new(api: FakeApi, client: Client, status: int, new: bool) -> None:
    api.on("POST", "/base/v1/jobs", Reply(job(), status))
    submitted = client.submit("report", "t1")
    assert submitted.new is new
    assert "new" not in submitted.model_dump(mode="json")


def test_generated_triggers_are_unique() -> None:
    with ThreadPoolExecutor(8) as pool:
        triggers = list(pool.map(lambda _: new_trigger(), range(500)))
    assert len(set(triggers)) == 500


@pytest.mark.parametrize(
    "failure",
    [
        Reply(error=httpx.ConnectError),
        Reply(error=httpx.ReadTimeout),
        Reply(error=httpx.RemoteProtocolError),
        Reply({"message": "Internal Server Error"}, 500),
        Reply(b"<html>", 503),
        Reply({"message": "Too Many Requests"}, 429),
    ],
)
def test_submit_is_retried_with_the_same_trigger(
    api: FakeApi, client: Client, sleeps: list[float], failure: Reply
) -> None:
    api.on("POST", "/base/v1/jobs", failure, failure, Reply(job("QUEUED")))
    assert client.submit("report").state is JobState.QUEUED
    assert len(api.requests) == 3
    assert len({each.body for each in api.requests}) == 1
    assert len(sleeps) == 2
    assert sleeps[0] < sleeps[1]


def test_reads_are_attempted_five_times(api: FakeApi, client: Client, sleeps: list[float]) -> None:
    api.on("GET", "/base/v1/jobs/report/t1", Reply(error=httpx.ConnectError))
    with pytest.raises(Unreachable, match=r"cannot reach Shardmill at http://127.0.0.1:1/base: injected"):
        client.job("report", "t1")
    assert client.calls == 5
    assert len(sleeps) == 4


def test_retry_after_is_honoured_up_to_the_maximum_delay(
    api: FakeApi, client: Client, sleeps: list[float]
) -> None:
    waits = [Reply({}, 429, {"retry-after": text}) for text in ("2", "3600", "soon")]
    api.on("GET", "/base/v1/jobs/report/t1", *waits, job())
    client.job("report", "t1")
    assert sleeps[0] == 2.0
    assert sleeps[1] == client_http.BACKOFF.max_delay
    assert sleeps[2] < 1


def test_requests_that_are_not_idempotent_are_not_retried(api: FakeApi, client: Client) -> None:
    broken = Reply({"message": "Internal Server Error"}, 500)
    for method, path in (
        ("PUT", "/base/v1/definitions/report"),
        ("DELETE", "/base/v1/definitions/report"),
        ("PUT", "/base/v1/groups/g"),
        ("DELETE", "/base/v1/groups/g"),
    ):
        api.on(method, path, broken)
    for act in (
        lambda: client.define(saved()),
        lambda: client.delete_definition("report"),
        lambda: client.create_group("g"),
        lambda: client.delete_group("g"),
    ):
        with pytest.raises(ServerError):
            act()
    assert len(api.requests) == 4


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, Invalid),
        (401, Unauthorized),
        (403, Forbidden),
        (404, NotFound),
        (409, Conflict),
        (412, PreconditionFailed),
        (413, Invalid),
        (415, Invalid),
        (422, Invalid),
        (429, Throttled),
        (500, ServerError),
        (503, ServerError),
        (418, BadAnswer),
    ],
)
def test_a_problem_raises_the_exception_of_its_status(
    api: FakeApi, client: Client, status: int, kind: type[ShardmillError]
) -> None:
    faults = [{"pointer": "/params/x", "code": "bad-value", "message": "is bad", "more": 1}]
    api.on("GET", "/base/v1/jobs/report/t1", problem(status, "some-code", "what is wrong", faults=faults))
    with pytest.raises(kind) as caught:
        client.job("report", "t1")
    error = caught.value
    assert type(error) is kind
    assert (error.code, error.status, error.detail) == ("some-code", status, "what is wrong")
    assert [(each.pointer, each.message) for each in error.faults] == [("/params/x", "is bad")]


def test_errors_of_api_gateway_are_recognised(api: FakeApi, client: Client) -> None:
    api.on("GET", "/base/v1/jobs/report/t1", Reply({"message": "Unauthorized"}, 401))
    with pytest.raises(Unauthorized, match="returned 401: Unauthorized"):
        client.job("report", "t1")


@pytest.mark.parametrize(
    "reply",
    [
        Reply(b"<html>not here</html>", 404),
        Reply({"message": "Not Found"}, 404),
        Reply(b"", 302, {"location": "https://example.org"}),
        Reply(b"<html>hello</html>", 200),
        Reply(["no", "job"]),
        Reply({"id": 1}),
        Reply(None),
    ],
)
def test_a_response_of_another_server_raises_bad_answer(api: FakeApi, client: Client, reply: Reply) -> None:
    api.on("GET", "/base/v1/jobs/report/t1", reply)
    with pytest.raises(BadAnswer):
        client.job("report", "t1")


def test_define_accepts_documents_models_and_files(api: FakeApi, client: Client, tmp_path) -> None:
    api.on("PUT", "/base/v1/definitions/report", saved())
    document = {"jobName": "report", "steps": [{"stepName": "main", "type": "noop"}]}
    file = tmp_path / "report.yaml"
    file.write_text("jobName: report\nsteps:\n- {stepName: main, type: noop}\n")
    for source in (document, JobDefine.model_validate(document), file, str(file)):
        assert client.define(source).version == 3
        assert api.requests[-1].document == document
        assert "if-match" not in api.requests[-1].headers


def test_preconditions_are_sent_as_etags(api: FakeApi, client: Client) -> None:
    api.on("PUT", "/base/v1/definitions/report", saved())
    client.define(saved(), expected=3)
    client.define(saved(), expected=0)
    assert api.requests[0].headers["if-match"] == '"v3"'
    assert api.requests[1].headers["if-none-match"] == "*"


def test_a_definition_that_was_read_can_be_saved(api: FakeApi, client: Client) -> None:
    api.on("GET", "/base/v1/definitions/report", saved(params={"a": [1, None]}))
    api.on("PUT", "/base/v1/definitions/report", saved())
    client.define(client.definition("report"))
    assert api.requests[-1].document["params"] == {"a": [1, None]}


@pytest.mark.parametrize("document", [{}, {"jobName": 3}, {"steps": []}])
def test_a_definition_without_a_name_is_rejected(
    api: FakeApi, client: Client, document: dict[str, object]
) -> None:
    with pytest.raises(Invalid) as caught:
        client.define(document)
    assert [each.pointer for each in caught.value.faults] == ["/jobName"]
    assert not api.requests


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1: 2}, b"x", datetime.now(UTC), "\ud800"])
def test_a_document_that_is_not_json_is_not_sent(api: FakeApi, client: Client, value: object) -> None:
    with pytest.raises(Invalid) as caught:
        client.submit("report", params={"x": value})
    assert caught.value.faults[0].pointer.startswith("/params/x")
    assert not api.requests


def test_request_bodies_are_ascii(api: FakeApi, client: Client) -> None:
    api.on("POST", "/base/v1/jobs", job())
    client.submit("report", params={"x": "\N{REPLACEMENT CHARACTER} ü"})
    assert api.requests[0].body.isascii()
    assert api.requests[0].document["params"]["x"] == "\N{REPLACEMENT CHARACTER} ü"


def test_an_invalid_data_time_is_reported_with_its_pointer(client: Client) -> None:
    with pytest.raises(Invalid) as caught:
        client.submit("report", data_time="yesterday")
    assert caught.value.faults[0].pointer == "/dataTime"


def test_validate_returns_the_faults(api: FakeApi, client: Client) -> None:
    fault = {"pointer": "/steps", "code": "missing-field", "message": "is required"}
    api.on("POST", "/base/v1/definitions:validate", {"valid": False, "faults": [fault]})
    assert [each.model_dump() for each in client.validate({"jobName": "x"})] == [fault]


def test_the_text_of_an_error_contains_its_faults(api: FakeApi, client: Client) -> None:
    faults = [
        {"pointer": f"/steps/{at}/x", "code": "unknown-field", "message": f"no {at}"} for at in range(12)
    ]
    faults.append({"pointer": "", "code": "bad-type", "message": "must be an object"})
    refusal = problem(422, "invalid-definition", "13 faults", faults=faults)
    api.on("PUT", "/base/v1/definitions/report", refusal)
    with pytest.raises(Invalid) as caught:
        client.define(saved())
    lines = str(caught.value).splitlines()
    assert lines[:2] == ["13 faults", "  /steps/0/x: no 0"]
    assert lines[-1] == "  and 3 more"
    assert caught.value.detail == "13 faults"


def test_versions_of_a_definition_are_read(api: FakeApi, client: Client) -> None:
    api.on("GET", "/base/v1/definitions/report/versions", page(listed(version=2), listed(version=1)))
    api.on("GET", "/base/v1/definitions/report", saved(version=1))
    assert [each.version for each in client.versions("report")] == [2, 1]
    assert client.definition("report", 1).version == 1
    assert api.requests[-1].query == {"version": "1"}


@pytest.mark.parametrize("name", ["", "..", "a/b", "a b", "a?b", "ä", "x" * 65, "a\n", "%2e"])
def test_an_invalid_name_is_not_sent(api: FakeApi, client: Client, name: str) -> None:
    for act in (
        lambda: client.job(name, "t"),
        lambda: client.job("report", name),
        lambda: client.definition(name),
        lambda: client.delete_definition(name),
        lambda: client.step("report", "t", name),
        lambda: client.delete_group(name),
    ):
        with pytest.raises(BadName, match="is not a valid"):
            act()
    assert not api.requests


def test_an_empty_page_is_not_the_end(api: FakeApi, client: Client) -> None:
    path = "/base/v1/jobs/report/t1/steps/main/tasks"
    api.on("GET", path, page(cursor="a"), page(cursor="b"), page(task(7, "FAILED")))
    assert [each.rank for each in client.tasks("report", "t1", "main", TaskState.FAILED)] == [7]
    assert len(api.requests) == 3


def test_lists_are_read_page_by_page(api: FakeApi, client: Client) -> None:
    first, second = page(job(jid=2), cursor="c&1"), page(job(jid=1))
    api.on("GET", "/base/v1/jobs", first, second)
    found = client.jobs("report", JobState.FAILED, "bob")
    assert not api.requests
    assert [each.jid for each in found] == [2, 1]
    common = {"jobName": "report", "state": "FAILED", "submitUser": "bob", "limit": "200"}
    assert [each.query for each in api.requests] == [common, {**common, "cursor": "c&1"}]


def test_pages_of_a_list_are_read_lazily(api: FakeApi, client: Client) -> None:
    api.on("GET", "/base/v1/jobs", page(job(), cursor="more"))
    next(client.jobs())
    assert len(api.requests) == 1


def test_a_response_without_a_list_raises_bad_answer(api: FakeApi, client: Client) -> None:
    api.on("GET", "/base/v1/groups", {"items": None})
    with pytest.raises(BadAnswer):
        list(client.groups())


def test_steps_and_tasks_are_read(api: FakeApi, client: Client) -> None:
    base = "/base/v1/jobs/report/t1"
    api.on("GET", base, job("RUNNING", step("main")))
    api.on("GET", f"{base}/steps/main", step("main", taskStates={"0": "SUCCESS"}))
    api.on("GET", f"{base}/steps/main/tasks", page(task(0), task(1, "FAILED")))
    api.on("GET", f"{base}/steps/main/tasks/1", task(1, "FAILED", reason="exit code 3"))
    assert [each.step_name for each in client.steps("report", "t1")] == ["main"]
    assert client.step("report", "t1", "main").task_states == {"0": TaskState.SUCCESS}
    assert [each.rank for each in client.tasks("report", "t1", "main", TaskState.FAILED)] == [0, 1]
    assert api.requests[-1].query["state"] == "FAILED"
    assert client.task("report", "t1", "main", 1).reason == "exit code 3"


def test_groups_and_workers_are_managed(api: FakeApi, client: Client) -> None:
    now = "2026-11-16T02:17:19.123Z"
    times = {"createTime": now, "updateTime": now}
    group = {"id": "g", "name": "g", "kind": "pull", "leaseSeconds": 60, **times}
    worker = {"id": "w", "name": "w", "groups": ["g"], "session": 1, "heartbeatSeconds": 20, **times}
    api.on("PUT", "/base/v1/groups/g", Reply(group, 201))
    api.on("GET", "/base/v1/groups/g", group)
    api.on("GET", "/base/v1/groups", page(group))
    api.on("DELETE", "/base/v1/groups/g", Reply(None, 204))
    api.on("GET", "/base/v1/workers", page(worker))
    assert client.create_group("g").lease_seconds == 60
    assert api.requests[-1].document == {}
    client.create_group("g", kind="lambda", lease_seconds=900, types=["shell"])
    assert api.requests[-1].document == {"kind": "lambda", "leaseSeconds": 900, "types": ["shell"]}
    assert client.group("g").name == "g"
    assert [each.name for each in client.groups()] == ["g"]
    assert [each.name for each in client.workers()] == ["w"]
    client.delete_group("g")
    assert api.requests[-1].query == {}
    client.delete_group("g", force=True)
    assert api.requests[-1].query == {"force": "true"}


def test_some_tasks_reads_one_page(api: FakeApi, client: Client) -> None:
    path = "/base/v1/jobs/report/t1/steps/main/tasks"
    api.on("GET", path, page(cursor="more"))
    assert client.some_tasks("report", "t1", "main", TaskState.RUNNING, 10) == []
    assert [each.query for each in api.requests] == [{"state": "RUNNING", "limit": "10"}]


def test_every_exported_name_exists() -> None:
    assert sorted(shardmill.__all__) == sorted(shardmill._HOMES)
    for name in shardmill.__all__:
        assert getattr(shardmill, name).__name__ == name
        assert name in dir(shardmill)
    with pytest.raises(AttributeError):
        _ = shardmill.nothing


def test_every_return_type_of_the_client_is_exported() -> None:
    found: set[str] = set()
    for name, method in inspect.getmembers(Client, inspect.isfunction):
        if not name.startswith("_"):
            found |= {model.__name__ for model in _models(get_type_hints(method)["return"])}
    assert {"Backfill", "DependencyStatus", "JobGraph", "SavedSchedule", "When"} < found
    assert found <= set(shardmill.__all__)


def _models(hint: object) -> Iterator[type[BaseModel]]:
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        yield hint
    for part in get_args(hint):
        yield from _models(part)


def test_the_import_loads_no_heavy_packages() -> None:
    code = "import sys, shardmill; print(*sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=True
    )
    assert not {"pydantic", "httpx", "typer", "rich", "yaml", "boto3"} & set(found.stdout.split())
