"""The metrics of a worker in the Prometheus text format."""

import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from shardmill.worker import pull_worker
from shardmill.worker.metrics import Metrics, text
from shardmill.worker.pull_worker import PullWorker
from shardmill.worker.run import run_worker
from shardmill.worker.transport.base import Unreachable
from support.fakes.leases import a_lease
from support.fakes.transport import FakeTransport

_LINE = re.compile(
    r"(?:# (?:HELP|TYPE) shardmill_worker_\w+ .+|shardmill_worker_\w+(?:\{\w+=\"[^\"]*\"\})? [-+.\de]+)"
)


def values(page: str) -> dict[str, float]:
    assert page.endswith("\n")
    assert all(_LINE.fullmatch(line) for line in page.splitlines()), page
    pairs = (line.rpartition(" ") for line in page.splitlines() if not line.startswith("#"))
    return {name.removeprefix("shardmill_worker_"): float(value) for name, _, value in pairs}


def test_every_series_exists_from_the_start() -> None:
    found = values(text({}))
    assert set(found.values()) == {0.0}
    assert {'tasks_ended_total{outcome="rejected"}', 'calls_total{call="lease"}', "slots"} <= set(found)


def test_metrics_count_tasks_and_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pull_worker, "_ONCE_WAIT_SECONDS", 0.1)
    seen: list[PullWorker] = []

    @contextmanager
    def observer(worker: PullWorker) -> Iterator[None]:
        seen.append(worker)
        yield

    transport = FakeTransport([a_lease("noop"), a_lease(content="exit 3", rank=1)])
    transport.fail("report", Unreachable("connection refused"))
    assert run_worker(["default"], 3, transport, name="w", once=True, observers=[observer]) == 0
    found = values(text(seen[0].figures()))
    assert (found["slots"], found["tasks_leased_total"], found["tasks_held"]) == (3, 2, 0)
    assert found['tasks_ended_total{outcome="success"}'] == 1
    assert found['tasks_ended_total{outcome="failed"}'] == 1
    assert found['call_failures_total{call="report"}'] == 1
    assert found['calls_total{call="report"}'] == len(transport.reports) + 1
    assert found["busy_seconds_total"] > 0


def test_metrics_are_served_on_loopback() -> None:
    with Metrics(0, lambda: {"slots": 4}) as metrics:
        assert metrics.url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(metrics.url, timeout=50) as response:
            assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
            assert values(response.read().decode())["slots"] == 4
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(metrics.url + "/nowhere", timeout=50)
        port = int(metrics.url.split(":")[2].split("/")[0])
        with pytest.raises(OSError, match="in use"):
            Metrics(port, dict)
