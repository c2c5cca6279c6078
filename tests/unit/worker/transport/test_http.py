"""The HTTP transport of a worker: requests, and how it interprets responses."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import pytest

from shardmill.model.worker import HeldTask, Registration, Result
from shardmill.transfer.backoff import Backoff
from shardmill.worker import logs
from shardmill.worker.logs import LogsNotStored, Part
from shardmill.worker.transport import base
from shardmill.worker.transport.base import Refused, Stale, TransportError, Unreachable
from shardmill.worker.transport.http import HttpTransport
from shardmill.worker.transport.reporting import PERMANENT_CODES
from support.fakes.leases import JOB, a_lease

WORKER = {
    "id": "abc",
    "name": "w",
    "groups": ["default"],
    "session": 3,
    "heartbeatSeconds": 20,
    "createTime": "2026-01-01T00:00:00.000Z",
    "updateTime": "2026-01-01T00:00:00.000Z",
    "somethingNew": 1,
}

Responder = Callable[[httpx.Request], httpx.Response]


def problem(status: int, code: str, detail: str = "because") -> httpx.Response:
    return httpx.Response(status, json={"status": status, "code": code, "detail": detail})


class Server:
    """Records the requests, and returns the response set for each path."""

    def __init__(self) -> None:
        self.requests: list[httpx.Request] = []
        self.responses: dict[str, Any] = {"/v1/workers": WORKER}
        client = httpx.Client(transport=httpx.MockTransport(self._respond))
        self.transport = HttpTransport("http://mill.test/stage/", "s3cret", client=client)
        self.transport.register(Registration(name="w", groups=["default"]))

    def _respond(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        response = self.responses[request.url.path.removeprefix("/stage")]
        if isinstance(response, Exception):
            raise response
        return response if isinstance(response, httpx.Response) else httpx.Response(200, json=response)

    @property
    def sent(self) -> Any:
        return json.loads(self.requests[-1].content)


@pytest.fixture
def server() -> Server:
    return Server()


def a_result() -> Result:
    return Result(
        task_id=f"{JOB}_0_7",
        attempt=1,
        outcome="failed",
        receipt="r",
        exit_code=3,
        start_time=datetime(2026, 1, 1, tzinfo=UTC),
    )


def test_every_request_carries_the_token(server: Server) -> None:
    assert server.requests[0].headers["authorization"] == "Bearer s3cret"
    assert str(server.requests[0].url) == "http://mill.test/stage/v1/workers"
    assert server.sent["name"] == "w"


def test_lease_requests_name_the_session(server: Server) -> None:
    lease = a_lease("noop")
    server.responses["/v1/work:lease"] = {"items": [lease.model_dump(mode="json")]}
    assert server.transport.lease(4, 20) == [lease]
    assert server.sent == {"workerId": "abc", "session": 3, "max": 4, "waitSeconds": 20}


def test_results_are_reported(server: Server) -> None:
    item = {"taskId": f"{JOB}_0_7", "attempt": 1, "status": "ok", "state": "READY"}
    server.responses["/v1/work:report"] = {"items": [item]}
    [reported] = server.transport.report([a_result()])
    assert reported.status == "ok"
    assert server.sent == {
        "workerId": "abc",
        "results": [
            {
                "taskId": f"{JOB}_0_7",
                "attempt": 1,
                "outcome": "failed",
                "receipt": "r",
                "exitCode": 3,
                "startTime": "2026-01-01T00:00:00.000Z",
            }
        ],
    }


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (409, "stale-attempt", "stale-attempt"),
        (409, "foreign-attempt", "foreign-attempt"),
        (409, "wrong-group", "wrong-group"),
        (404, "task-not-found", "unknown-task"),
    ],
)
def test_refused_results_get_a_status(server: Server, status: int, code: str, expected: str) -> None:
    server.responses["/v1/work:report"] = problem(status, code)
    assert [reported.status for reported in server.transport.report([a_result()])] == [expected]


def test_a_permanently_refused_report_has_its_code(server: Server) -> None:
    server.responses["/v1/work:report"] = problem(413, "output-too-large")
    with pytest.raises(Refused) as caught:
        server.transport.report([a_result()])
    assert caught.value.code in PERMANENT_CODES


def test_heartbeats_name_the_held_tasks(server: Server) -> None:
    server.responses["/v1/workers/abc:heartbeat"] = {"drop": ["x"], "status": 3, "heartbeatSeconds": 7}
    response = server.transport.heartbeat([HeldTask(task_id="x", attempt=2, run=1)], offline=True)
    assert (response.drop, response.heartbeat_seconds) == (["x"], 7)
    assert server.sent == {
        "session": 3,
        "work": [{"taskId": "x", "attempt": 2, "run": 1}],
        "offline": True,
    }


def test_tasks_are_handed_back(server: Server) -> None:
    server.responses["/v1/work:release"] = {"items": [f"{JOB}_0_7"]}
    server.transport.hand_back([a_lease()], "the worker stopped")
    assert server.sent == {
        "workerId": "abc",
        "tasks": [
            {"taskId": f"{JOB}_0_7", "attempt": 1, "receipt": "receipt", "reason": "the worker stopped"}
        ],
    }


@pytest.mark.parametrize(
    ("response", "error", "message"),
    [
        (
            httpx.ConnectError("connection refused"),
            Unreachable,
            "http://mill.test/stage: connection refused",
        ),
        (httpx.ReadTimeout(""), Unreachable, "http://mill.test/stage: ReadTimeout"),
        (httpx.Response(503, text="busy"), Unreachable, "POST /v1/work:lease: 503 Service Unavailable"),
        (problem(429, "too-many"), Unreachable, "POST /v1/work:lease: 429 because"),
        (httpx.Response(502, text="<html>"), Unreachable, "POST /v1/work:lease: 502 Bad Gateway"),
        (httpx.Response(200, text="hello"), Unreachable, "POST /v1/work:lease: invalid response: "),
        (problem(409, "stale-session"), Stale, "because"),
        (problem(404, "worker-not-found"), Stale, "because"),
        (problem(401, "unauthorized"), Refused, "POST /v1/work:lease: 401 because"),
        (httpx.Response(400, json=[1]), Refused, "POST /v1/work:lease: 400 Bad Request"),
    ],
)
def test_errors_are_unreachable_refused_or_stale(
    server: Server, response: Any, error: type[TransportError], message: str
) -> None:
    server.responses["/v1/work:lease"] = response
    with pytest.raises(error) as caught:
        server.transport.lease(1, 0)
    assert type(caught.value) is error
    assert str(caught.value).startswith(message)


def test_a_refusal_keeps_its_code(server: Server) -> None:
    server.responses["/v1/workers"] = problem(404, "group-not-found")
    with pytest.raises(Refused) as caught:
        server.transport.register(Registration(name="w", groups=["x"]))
    assert caught.value.code == "group-not-found"


# Logs


def test_logs_are_uploaded_to_presigned_urls_without_the_token(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "stdout"
    path.write_bytes(b"abcdefg")
    server.responses["/v1/work:urls"] = {
        "items": [{"chunk": n, "url": f"http://s3.test/chunk{n}?signed"} for n in range(3)]
    }
    server.responses |= {f"/chunk{n}": {} for n in range(3)}
    with patch.object(logs, "CHUNK_BYTES", 3):
        server.transport.logs.store(a_lease(), "stdout", Part(path, 0, 7))
    urls_request, *puts = server.requests[1:]
    assert json.loads(urls_request.content) == {
        "workerId": "abc",
        "taskId": f"{JOB}_0_7",
        "attempt": 1,
        "run": 1,
        "stream": "stdout",
        "chunks": 3,
    }
    assert [(put.method, put.url.path, put.content) for put in puts] == [
        ("PUT", "/chunk0", b"abc"),
        ("PUT", "/chunk1", b"def"),
        ("PUT", "/chunk2", b"g"),
    ]
    assert not any("authorization" in put.headers for put in puts)


def test_later_chunks_request_urls_by_their_numbers(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "stdout"
    path.write_bytes(b"abcdefg")
    server.responses["/v1/work:urls"] = {
        "items": [{"chunk": n, "url": f"http://s3.test/chunk{n}?signed"} for n in (4, 5)]
    }
    server.responses |= {f"/chunk{n}": {} for n in (4, 5)}
    with patch.object(logs, "CHUNK_BYTES", 3):
        server.transport.logs.store(a_lease(), "stdout", Part(path, 2, 7, first=4))
    urls_request, *puts = server.requests[1:]
    assert (json.loads(urls_request.content)["first"], json.loads(urls_request.content)["chunks"]) == (4, 2)
    assert [(put.url.path, put.content) for put in puts] == [("/chunk4", b"cde"), ("/chunk5", b"fg")]


@pytest.mark.parametrize(
    ("urls", "put"),
    [
        (httpx.Response(503), {}),
        (problem(409, "stale-attempt"), {}),
        ({"items": []}, {}),
        ({"items": [{"chunk": 0, "url": "http://s3.test/chunk0"}]}, httpx.Response(403)),
        ({"items": [{"chunk": 0, "url": "http://s3.test/chunk0"}]}, httpx.ConnectError("connection refused")),
    ],
)
def test_any_failed_log_upload_raises_logs_not_stored(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, urls: Any, put: Any
) -> None:
    monkeypatch.setattr(base, "BRIEF_BACKOFF", Backoff(4, 0.001, 0.001))
    path = tmp_path / "stdout"
    path.write_bytes(b"abc")
    server.responses |= {"/v1/work:urls": urls, "/chunk0": put}
    with pytest.raises(LogsNotStored):
        server.transport.logs.store(a_lease(), "stdout", Part(path, 0, 3))


def test_an_invalid_response_is_reported_without_its_values() -> None:
    server = Server()
    server.responses["/v1/work:urls"] = {"prepared": {"environ": {"KEY": "s3cret-value"}, "files": 7}}
    with pytest.raises(
        Unreachable, match=r"invalid response: prepared\.files: Input should be a valid"
    ) as found:
        server.transport.files.prepare(a_lease())
    assert "s3cret" not in str(found.value)
    assert found.value.__cause__ is None
