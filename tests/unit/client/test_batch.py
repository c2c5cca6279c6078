"""Batches of requests: what the API could not process in time is sent again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from shardmill.client.client import Client
from support.fakes.api import TOKEN, FakeApi, Request

BATCH = "/v1/jobs:batch"
BUSY = {"status": 503, "job": None, "problem": {"code": "busy", "status": 503}}


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def client(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    with Client("http://shardmill.test", TOKEN, transport=api.transport()) as client:
        yield client


def accepted(trigger: str) -> dict[str, Any]:
    job = {"id": f"id-{trigger}", "jid": 1, "jobName": "orders", "trigger": trigger, "state": "INIT"}
    return {"status": 202, "job": job, "problem": None}


def documents(count: int) -> list[dict[str, Any]]:
    return [{"jobName": "orders", "trigger": f"t{number:03d}"} for number in range(count)]


class SlowApi:
    """Processes a few requests of each batch, and answers that it was too busy for the others."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.sent: list[list[str]] = []

    def __call__(self, request: Request) -> dict[str, Any]:
        triggers = [each["trigger"] for each in request.document["requests"]]
        self.sent.append(triggers)
        return {
            "items": [accepted(trigger) for trigger in triggers[: self.most]]
            + [BUSY] * (len(triggers) - self.most)
        }


def test_requests_that_were_not_processed_are_sent_again(api: FakeApi, client: Client) -> None:
    slow = SlowApi(83)
    api.on("POST", BATCH, slow)
    items = list(client.submit_batch(documents(100)))
    assert [item.job.trigger for item in items if item.job] == [each["trigger"] for each in documents(100)]
    assert [len(each) for each in slow.sent] == [100, 17]


def test_a_batch_is_resubmitted_while_attempts_make_progress(api: FakeApi, client: Client) -> None:
    slow = SlowApi(3)
    api.on("POST", BATCH, slow)
    items = list(client.submit_batch(documents(40)))
    assert [item.status for item in items] == [202] * 40
    assert len(slow.sent) == 14


def test_a_batch_without_progress_returns_the_known_answers(api: FakeApi, client: Client) -> None:
    refused = {"status": 404, "job": None, "problem": {"code": "definition-not-found"}}
    api.on("POST", BATCH, {"items": [accepted("t000"), BUSY, refused]}, {"items": [BUSY]})
    items = list(client.submit_batch(documents(3)))
    assert [item.status for item in items] == [202, 503, 404]
    assert len(api.requests) == 5
