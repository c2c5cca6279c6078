"""A worker over HTTP that waits at SQS: its requests, its fallbacks and its log lines."""

from __future__ import annotations

import gzip
import json
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from shardmill.model.worker import Registration, Result
from shardmill.worker.transport import sqs_waiting
from shardmill.worker.transport.base import Refused, Stale, Unreachable
from shardmill.worker.transport.http import MIN_COMPRESSED_BYTES, HttpTransport
from support.fakes.leases import JOB, a_lease

SECRET = "X-Amz-Signature=5ecret"
WORKER = {
    "id": "abc",
    "name": "w",
    "groups": ["default"],
    "session": 3,
    "heartbeatSeconds": 20,
    "createTime": "2026-01-01T00:00:00.000Z",
    "updateTime": "2026-01-01T00:00:00.000Z",
}
EMPTY = "<ReceiveMessageResponse><ReceiveMessageResult/></ReceiveMessageResponse>"


def addresses(*queues: str, tag: str = "t.1", seconds: int = 900) -> dict[str, Any]:
    items = [
        {
            "queue": queue,
            "priority": -at,
            "urls": {str(n): f"https://sqs.test/1/{queue}?Max={n}&{SECRET}" for n in (1, 3, 10)},
        }
        for at, queue in enumerate(queues)
    ]
    return {"tag": tag, "validSeconds": seconds, "items": items}


def messages(*bodies: str) -> str:
    listed = "".join(
        f"<Message><MessageId>m</MessageId><ReceiptHandle>r-{body}</ReceiptHandle><Body>{body}</Body>"
        "<Attribute><Name>ApproximateReceiveCount</Name><Value>2</Value></Attribute></Message>"
        for body in bodies
    )
    return (
        '<ReceiveMessageResponse xmlns="http://queue.amazonaws.com/doc/2012-11-05/"><ReceiveMessageResult>'
        f"{listed}</ReceiveMessageResult></ReceiveMessageResponse>"
    )


class Fakes:
    """The API and SQS: `api` answers by path, `queues` has the answers of each queue."""

    def __init__(self, lanes: dict[str, Any] | None) -> None:
        self.api: dict[str, Any] = {
            "/v1/workers": WORKER | ({"lanes": lanes} if lanes else {}),
            "/v1/work:lease": {"items": []},
        }
        self.queues: dict[str, list[Any]] = {}
        self.requests: list[tuple[str, Any]] = []
        self.urls: list[str] = []
        self.headers: list[httpx.Headers] = []
        self.over = threading.Event()
        client = httpx.Client(transport=httpx.MockTransport(self._respond))
        self.transport = HttpTransport("http://mill.test", "s3cret-token", client=client)
        self.transport.register(Registration(name="w", groups=["default"]))

    def _respond(self, request: httpx.Request) -> httpx.Response:
        if request.url.host == "sqs.test":
            self.urls.append(str(request.url))
            assert "authorization" not in request.headers
            given = self.queues.get(request.url.path.rsplit("/", 1)[1])
            if given:
                answer = given.pop(0) if len(given) > 1 else given[0]
                if isinstance(answer, Exception):
                    raise answer
                if isinstance(answer, int):
                    return httpx.Response(answer, text=f"<Error><Code>AccessDenied</Code>{SECRET}</Error>")
                if answer != EMPTY:
                    return httpx.Response(200, text=answer)
            self.over.wait(5)
            return httpx.Response(200, text=EMPTY)
        packed = request.headers.get("content-encoding") == "gzip"
        content = gzip.decompress(request.content) if packed else request.content
        self.headers.append(request.headers)
        self.requests.append((request.url.path, json.loads(content)))
        answer = self.api[request.url.path]
        if callable(answer):
            answer = answer(request)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, httpx.Response) else httpx.Response(200, json=answer)

    def sent(self, path: str) -> list[Any]:
        return [body for sent, body in self.requests if sent == path]

    def close(self) -> None:
        self.transport.close()
        self.over.set()


@pytest.fixture
def start(request: pytest.FixtureRequest) -> Callable[..., Fakes]:
    def started(lanes: dict[str, Any] | None = None) -> Fakes:
        fakes = Fakes(lanes)
        request.addfinalizer(fakes.close)
        return fakes

    return started


Start = Callable[..., Fakes]


def a_result(rank: int = 0, **more: Any) -> Result:
    return Result(task_id=f"{JOB}_0_{rank}", attempt=1, outcome="success", receipt="r", **more)


def test_a_worker_waits_at_sqs_and_brings_what_it_received(start: Start) -> None:
    fakes = start(addresses("high", "low"))
    fakes.queues["low"] = [messages("a", "b"), EMPTY]
    lease = a_lease("noop")
    fakes.api["/v1/work:lease"] = {"items": [lease.model_dump(mode="json")]}
    assert fakes.transport.lease(4, 20) == [lease]
    brought = [{"queue": "low", "receipt": f"r-{body}", "body": body, "receives": 2} for body in "ab"]
    expected = {"workerId": "abc", "session": 3, "max": 4, "messages": brought, "lanes": "t.1"}
    assert fakes.sent("/v1/work:lease") == [expected | {"waitSeconds": 0}]
    assert {url.partition("?")[2].partition("&")[0] for url in fakes.urls} == {"Max=3"}, "at most 4"


def test_no_request_reaches_the_api_while_the_queues_are_empty(start: Start, monkeypatch: Any) -> None:
    fakes = start(addresses("high", "low"))
    monkeypatch.setattr("shardmill.worker.transport.http.WAIT_SECONDS", 1)
    assert fakes.transport.lease(4, 1) == []
    assert [path for path, _ in fakes.requests] == ["/v1/workers"]
    assert len(fakes.urls) == 2


def test_without_addresses_the_api_waits_as_before(start: Start) -> None:
    """The API of an earlier release gives none, and rejects fields that it does not know."""
    fakes = start()
    assert fakes.transport.lease(4, 20) == []
    assert fakes.sent("/v1/work:lease") == [{"workerId": "abc", "session": 3, "max": 4, "waitSeconds": 20}]
    fakes.api["/v1/workers/abc:heartbeat"] = {"status": 3, "heartbeatSeconds": 20}
    fakes.transport.heartbeat([])
    assert fakes.sent("/v1/workers/abc:heartbeat") == [{"session": 3, "work": [], "offline": False}]
    assert fakes.urls == []


def test_a_worker_survives_the_return_to_an_earlier_release(start: Start) -> None:
    fakes = start(addresses("high"))

    def old(request: httpx.Request) -> Any:
        if "lanes" in json.loads(request.content):
            return httpx.Response(400, json={"code": "invalid-request", "detail": "unknown field"})
        return {"status": 3, "heartbeatSeconds": 20}

    fakes.api["/v1/workers/abc:heartbeat"] = old
    for _ in range(2):
        assert fakes.transport.heartbeat([]).heartbeat_seconds == 20
    assert ["lanes" in body for body in fakes.sent("/v1/workers/abc:heartbeat")] == [True, False, False]


@pytest.mark.parametrize(
    "failure", [403, 500, httpx.ConnectError("refused"), httpx.ReadTimeout("slow"), "<x"]
)
def test_if_sqs_cannot_be_reached_the_api_waits_and_the_log_says_so_once(
    start: Start, failure: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    fakes = start(addresses("high", "low"))
    fakes.queues = {"high": [failure], "low": [failure]}
    lease = a_lease("noop")
    fakes.api["/v1/work:lease"] = {"items": [lease.model_dump(mode="json")]}
    for _ in range(3):
        assert fakes.transport.lease(4, 20) == [lease]
    assert all(body["waitSeconds"] == 20 for body in fakes.sent("/v1/work:lease"))
    assert [record.action for record in caplog.records if hasattr(record, "action")].count(
        "sqs-unreachable"
    ) == 1
    ours = [record for record in caplog.records if record.name.startswith("shardmill")]
    assert SECRET not in "".join(str(record.__dict__) for record in ours)


def test_a_worker_returns_to_sqs(start: Start, monkeypatch: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(sqs_waiting, "RETRY_SECONDS", 0.0)
    fakes = start(addresses("high"))
    fakes.queues["high"] = [403]
    fakes.transport.lease(4, 20)
    fakes.queues["high"] = [messages("a"), EMPTY]
    fakes.transport.lease(4, 20)
    assert fakes.sent("/v1/work:lease")[-1]["messages"]
    assert "sqs-reachable" in [getattr(record, "action", "") for record in caplog.records]


def test_expired_addresses_are_not_used_until_a_heartbeat_brings_others(start: Start) -> None:
    """Heartbeats failed for as long as the addresses were valid."""
    fakes = start(addresses("high", seconds=0))
    fakes.queues["high"] = [messages("a"), EMPTY]
    fakes.transport.lease(4, 20)
    assert fakes.urls == []
    assert fakes.sent("/v1/work:lease")[-1]["waitSeconds"] == 20
    fakes.api["/v1/workers/abc:heartbeat"] = {
        "status": 3,
        "heartbeatSeconds": 20,
        "lanes": addresses("high", tag="t.2"),
    }
    fakes.transport.heartbeat([])
    fakes.transport.lease(4, 20)
    assert len(fakes.sent("/v1/work:lease")[-1]["messages"]) == 1


def test_heartbeats_renew_addresses_at_least_each_minute(start: Start) -> None:
    fakes = start(addresses("high"))
    fakes.api["/v1/workers/abc:heartbeat"] = {"status": 3, "heartbeatSeconds": 14_400}
    assert fakes.transport.heartbeat([]).heartbeat_seconds == sqs_waiting.MAX_HEARTBEAT_SECONDS
    assert fakes.sent("/v1/workers/abc:heartbeat") == [
        {"session": 3, "work": [], "offline": False, "lanes": "t.1"}
    ]


def test_an_idle_worker_polls_a_new_lane_as_soon_as_a_heartbeat_announces_it(start: Start) -> None:
    fakes = start(addresses("low"))
    fakes.queues["new"] = [messages("a"), EMPTY]
    heartbeat = {"status": 3, "heartbeatSeconds": 20, "lanes": addresses("new", "low", tag="t.2")}
    fakes.api["/v1/workers/abc:heartbeat"] = heartbeat
    threading.Timer(0.2, lambda: fakes.transport.heartbeat([])).start()
    fakes.transport.lease(4, 20)
    assert [message["queue"] for message in fakes.sent("/v1/work:lease")[0]["messages"]] == ["new"]


@pytest.mark.parametrize("failure", [httpx.ConnectError("gone"), httpx.Response(503, json={})])
def test_messages_are_brought_again_after_a_failed_call(start: Start, failure: Any) -> None:
    fakes = start(addresses("high"))
    fakes.queues["high"] = [messages("a"), EMPTY]
    fakes.api["/v1/work:lease"] = failure
    with pytest.raises(Unreachable):
        fakes.transport.lease(1, 20)
    fakes.api["/v1/work:lease"] = {"items": []}
    fakes.transport.lease(1, 20)
    first, second = fakes.sent("/v1/work:lease")
    assert first == second


def test_refused_messages_are_dropped(start: Start) -> None:
    fakes = start(addresses("high"))
    fakes.queues["high"] = [messages("a"), messages("b"), EMPTY]
    fakes.api["/v1/work:lease"] = httpx.Response(409, json={"code": "worker-suspended", "detail": "x"})
    with pytest.raises(Refused):
        fakes.transport.lease(1, 20)
    fakes.api["/v1/work:lease"] = {"items": []}
    fakes.transport.lease(1, 20)
    assert [body["messages"][0]["body"] for body in fakes.sent("/v1/work:lease")] == ["a", "b"]


def lease_and_report(fakes: Fakes, results: list[Result]) -> Any:
    """Lease once, so that more is expected; then report and lease at the same time."""
    fakes.queues["high"] = [messages("a"), messages("b"), EMPTY]
    fakes.api["/v1/work:lease"] = {"items": [a_lease("noop").model_dump(mode="json")]}
    fakes.transport.lease(1, 20)
    reported: list[Any] = []

    def report() -> None:
        try:
            reported.append(fakes.transport.report(results))
        except Exception as error:
            reported.append(error)

    thread = threading.Thread(target=report)
    thread.start()
    time.sleep(0.005)
    try:
        leases: Any = fakes.transport.lease(1, 20)
    except Exception as error:
        leases = error
    thread.join(5)
    return leases, reported[0]


@pytest.fixture
def waits_for_five_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardmill.worker.transport.http.TAKE_ALONG_SECONDS", 5.0)


@pytest.mark.usefixtures("waits_for_five_seconds")
def test_results_and_messages_go_in_one_request(start: Start) -> None:
    fakes = start(addresses("high"))
    task = a_lease("noop")
    item = {"taskId": f"{JOB}_0_0", "attempt": 1, "status": "ok"}
    fakes.api["/v1/work:report"] = {"items": [item], "lease": {"items": [task.model_dump(mode="json")]}}
    leases, reported = lease_and_report(fakes, [a_result()])
    assert leases == [task]
    assert [each.status for each in reported] == ["ok"]
    assert len(fakes.sent("/v1/work:lease")) == 1
    [request] = fakes.sent("/v1/work:report")
    assert [message["body"] for message in request["lease"]["messages"]] == ["b"]


@pytest.mark.usefixtures("waits_for_five_seconds")
def test_if_the_common_request_fails_both_are_repeated(start: Start) -> None:
    fakes = start(addresses("high"))
    fakes.api["/v1/work:report"] = httpx.ConnectError("gone")
    leases, reported = lease_and_report(fakes, [a_result()])
    assert isinstance(leases, Unreachable)
    assert isinstance(reported, Unreachable)
    fakes.transport.lease(1, 20)
    assert fakes.sent("/v1/work:lease")[-1]["messages"][0]["body"] == "b"


@pytest.mark.usefixtures("waits_for_five_seconds")
def test_if_the_results_are_refused_the_messages_are_leased_alone(start: Start) -> None:
    fakes = start(addresses("high"))
    fakes.api["/v1/work:report"] = httpx.Response(400, json={"code": "output-too-large", "detail": "x"})
    leases, reported = lease_and_report(fakes, [a_result()])
    assert len(leases) == 1
    assert isinstance(reported, Refused)
    assert fakes.sent("/v1/work:lease")[-1]["messages"][0]["body"] == "b"


@pytest.mark.usefixtures("waits_for_five_seconds")
@pytest.mark.parametrize(("code", "kind"), [("worker-suspended", Refused), ("stale-session", Stale)])
def test_a_refused_lease_does_not_hide_the_report(start: Start, code: str, kind: type[Exception]) -> None:
    fakes = start(addresses("high"))
    item = {"taskId": f"{JOB}_0_0", "attempt": 1, "status": "ok"}
    fakes.api["/v1/work:report"] = {"items": [item], "refused": {"code": code, "detail": "x"}}
    leases, reported = lease_and_report(fakes, [a_result()])
    assert isinstance(leases, kind)
    assert [each.status for each in reported] == ["ok"]


def test_a_report_is_sent_alone_if_no_lease_comes(start: Start) -> None:
    fakes = start(addresses("high"))
    fakes.queues["high"] = [messages("a"), EMPTY]
    fakes.api["/v1/work:lease"] = {"items": [a_lease("noop").model_dump(mode="json")]}
    fakes.transport.lease(1, 20)
    fakes.api["/v1/work:report"] = {"items": [{"taskId": f"{JOB}_0_0", "attempt": 1, "status": "ok"}]}
    assert fakes.transport.report([a_result()])[0].status == "ok"
    assert "lease" not in fakes.sent("/v1/work:report")[0]


def test_large_requests_are_compressed(start: Start) -> None:
    fakes = start(addresses("high"))
    fakes.api["/v1/work:report"] = {"items": []}
    fakes.transport.report([a_result(stdout="x" * MIN_COMPRESSED_BYTES)])
    fakes.transport.report([a_result()])
    encodings = [headers.get("content-encoding") for headers in fakes.headers[-2:]]
    assert encodings == ["gzip", None]
    assert int(fakes.headers[-2]["content-length"]) < 500


def test_a_worker_stops_compressing_after_a_compressed_request_is_rejected(start: Start) -> None:
    fakes = start(addresses("high"))

    def plain_only(request: httpx.Request) -> Any:
        packed = "content-encoding" in request.headers
        return httpx.Response(400, json={"code": "bad-request"}) if packed else {"items": []}

    fakes.api["/v1/work:report"] = plain_only
    for _ in range(2):
        fakes.transport.report([a_result(stdout="x" * MIN_COMPRESSED_BYTES)])
    assert [headers.get("content-encoding") for headers in fakes.headers[1:]] == ["gzip", None, None]
