"""The decorator of handlers: keys of log lines, metrics and traces."""

import io
import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from shardmill.aws import observability
from shardmill.aws.observability import API_REQUEST, BATCH, EVENT, count, logger, observed


@dataclass
class Context:
    function_name: str = "shardmill-tick"
    memory_limit_in_mb: int = 512
    invoked_function_arn: str = "arn:aws:lambda:us-east-1:123456789012:function:shardmill-tick"
    aws_request_id: str = "request-1"


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    stream = io.StringIO()
    monkeypatch.setattr(logger.registered_handler, "stream", stream)
    yield stream
    logger.structure_logs()


def logged(lines: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("path", "event", "correlation_id"),
    [
        (API_REQUEST, {"requestContext": {"requestId": "r"}}, "r"),
        (EVENT, {"id": "e"}, "e"),
        (BATCH, {"Records": [{"messageId": "m"}]}, "m"),
        (EVENT, {"jobName": "no event of EventBridge"}, None),
    ],
)
def test_a_log_line_has_the_correlation_id_and_the_request(
    lines: io.StringIO, path: str, event: dict[str, Any], correlation_id: str | None
) -> None:
    observed(path)(lambda event, context: logger.info("hello"))(event, Context())  # type: ignore[arg-type]
    [line] = logged(lines)
    assert line.get("correlation_id") == correlation_id
    assert (line["function_request_id"], line["function_name"]) == ("request-1", "shardmill-tick")


def test_keys_of_one_invocation_are_removed_before_the_next(lines: io.StringIO) -> None:
    @observed(EVENT, jobId="detail.jobId", run="detail.run")
    def handler(event: dict[str, Any], context: Any) -> None:
        logger.info("hello")

    handler({"id": "1", "detail": {"jobId": "j", "run": 2}}, Context())  # type: ignore[arg-type]
    handler({"id": "2"}, Context())  # type: ignore[arg-type]
    first, second = logged(lines)
    assert (first["jobId"], first["run"]) == ("j", 2)
    assert not {"jobId", "run"} & set(second)


def test_metrics_are_published_when_the_handler_ends(
    capsys: pytest.CaptureFixture[str], lines: io.StringIO
) -> None:
    observed(EVENT)(lambda event, context: count(JobsChecked=3))({}, Context())  # type: ignore[arg-type]
    published = json.loads(capsys.readouterr().out)
    assert published["JobsChecked"] == [3.0]
    observed(EVENT)(lambda event, context: None)({}, Context())  # type: ignore[arg-type]
    assert capsys.readouterr().out == ""


def test_a_count_of_zero_is_not_published_because_the_metric_would_be_billed(
    capsys: pytest.CaptureFixture[str], lines: io.StringIO
) -> None:
    observed(EVENT)(lambda event, context: count(JobsChecked=0, RepairsFailed=0))({}, Context())  # type: ignore[arg-type]
    assert capsys.readouterr().out == ""


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind(("127.0.0.1", 0))
        udp.settimeout(10)
        monkeypatch.setenv("AWS_XRAY_DAEMON_ADDRESS", f"127.0.0.1:{udp.getsockname()[1]}")
        yield udp


def received(daemon: socket.socket) -> dict[str, Any]:
    header, _, document = daemon.recv(65_536).partition(b"\n")
    assert json.loads(header) == {"format": "json", "version": 1}
    found: dict[str, Any] = json.loads(document)
    return found


def test_a_sampled_invocation_sends_a_subsegment_with_its_keys(
    daemon: socket.socket, monkeypatch: pytest.MonkeyPatch, lines: io.StringIO
) -> None:
    monkeypatch.setenv("_X_AMZN_TRACE_ID", "Root=1-abc-def;Parent=53995c3f42cd8ad8;Sampled=1;Lineage=1:x:0")
    observed(EVENT, jobId="detail.jobId")(lambda event, context: None)(
        {"detail": {"jobId": "j"}},
        Context(),  # type: ignore[arg-type]
    )
    found = received(daemon)
    assert (found["type"], found["trace_id"], found["parent_id"]) == (
        "subsegment",
        "1-abc-def",
        "53995c3f42cd8ad8",
    )
    assert found["annotations"]["jobId"] == "j"
    assert found["start_time"] <= found["end_time"]


def test_the_subsegment_of_a_failed_invocation_has_the_error(
    daemon: socket.socket, monkeypatch: pytest.MonkeyPatch, lines: io.StringIO
) -> None:
    def fail(event: dict[str, Any], context: Any) -> None:
        raise RuntimeError("on purpose")

    monkeypatch.setenv("_X_AMZN_TRACE_ID", "Root=1-abc-def;Parent=53995c3f42cd8ad8;Sampled=1")
    with pytest.raises(RuntimeError):
        observed(EVENT)(fail)({}, Context())  # type: ignore[arg-type]
    found = received(daemon)
    [cause] = found["cause"]["exceptions"]
    assert (found["fault"], cause["type"], cause["message"]) == (True, "RuntimeError", "on purpose")


@pytest.mark.parametrize("header", ["", "Root=1-abc-def;Parent=53995c3f42cd8ad8;Sampled=0", "Sampled=1"])
def test_nothing_is_sent_unless_x_ray_samples_the_invocation(
    daemon: socket.socket, monkeypatch: pytest.MonkeyPatch, lines: io.StringIO, header: str
) -> None:
    monkeypatch.setenv("_X_AMZN_TRACE_ID", header)
    observed(EVENT)(lambda event, context: None)({}, Context())  # type: ignore[arg-type]
    daemon.setblocking(False)
    with pytest.raises(BlockingIOError):
        daemon.recv(65_536)


def test_subsegments_are_nested(daemon: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_X_AMZN_TRACE_ID", "Root=1-abc-def;Parent=53995c3f42cd8ad8;Sampled=1")
    provider = observability.tracer.provider
    with provider.in_subsegment("outer"), provider.in_subsegment("inner"):
        pass
    inner, outer = received(daemon), received(daemon)
    assert (inner["name"], outer["name"], inner["parent_id"]) == ("inner", "outer", outer["id"])
