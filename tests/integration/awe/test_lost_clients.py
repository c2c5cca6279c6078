"""Clients that stop sending heartbeats lose their workunits; the others keep them for any time."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from shardmill.api.awe import awe_request, work
from support.moto.cloud import Cloud
from support.scenarios.awe.awe_calls import IDLE, AweCalls, AweClientCalls, task
from support.scenarios.manual_clock import SkewedClock, queue_clock


@pytest.fixture
def clock(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Iterator[SkewedClock]:
    """The clock of the API and of the queues."""
    clock = SkewedClock(lambda: int(time.time() * 1000))
    monkeypatch.setattr(awe_request, "now_ms", clock)
    monkeypatch.setattr(work, "now_ms", clock)
    with queue_clock(clock):
        yield clock


@pytest.mark.parametrize("generation", ["0.9", "2.0"])
def test_a_client_that_is_silent_for_a_minute_loses_its_unit(
    cloud: Cloud, clock: SkewedClock, generation: str
) -> None:
    awe = AweCalls(cloud)
    lost, next_client = awe.client(), awe.client()
    job = awe.submit(task(), clientgroups="docker")["id"]
    unit = lost.take()
    clock.offset_ms = 50_000
    assert next_client.refused() in IDLE
    clock.offset_ms = 125_000
    again = next_client.take()
    assert (again["id"], again["failed"]) == (unit["id"], 0), "a loss is not a failure"
    beat = lost.beat() if generation == "0.9" else lost.beat_with(unit["id"])
    assert beat["discard"] == unit["id"]
    lost.finish(unit, stdout=b"late")
    assert awe.job(job)["state"] == "in-progress", "the late report does not count"
    next_client.finish(again)
    assert awe.wait(job, "completed")["remaintasks"] == 0


@pytest.mark.parametrize("generation", ["0.9", "2.0"])
def test_a_client_that_beats_keeps_its_unit(cloud: Cloud, clock: SkewedClock, generation: str) -> None:
    awe = AweCalls(cloud)
    slow, other = awe.client(), awe.client()
    job = awe.submit(task(), clientgroups="docker")["id"]
    unit = slow.take()
    for seconds in range(10, 200, 30):
        clock.offset_ms = seconds * 1000
        beat = slow.beat() if generation == "0.9" else slow.beat_with(unit["id"])
        assert "discard" not in beat
        assert other.refused() in IDLE
    slow.finish(unit)
    awe.wait(job, "completed")


def test_a_late_report_of_an_earlier_attempt_of_the_same_client_does_not_count(
    cloud: Cloud, clock: SkewedClock
) -> None:
    """Reports name no attempt, but one that computed longer than the client has the unit is an old one."""
    awe = AweCalls(cloud)
    client = awe.client()
    job = awe.submit(task(), clientgroups="docker")["id"]
    unit = client.take()
    clock.offset_ms = 200_000
    again = client.take()
    assert again["id"] == unit["id"]
    assert client.report(unit, "fail", seconds=190).json["data"].endswith("discarded")
    assert awe.job(job)["state"] == "in-progress"
    client.finish(again)
    assert awe.wait(job, "completed")["tasks"][0]["computetime"] == 7


def register(awe: AweCalls, client: AweClientCalls, **profile: Any) -> None:
    document = {"id": client.id, "name": "c", "group": "docker", "apps": ["*"], **profile}
    answer = awe.data("POST", "/client", profile=json.dumps(document).encode())
    assert answer["id"] == client.id


@pytest.mark.parametrize("form", ["none", "map", "list"])
def test_a_client_that_registers_again_keeps_the_unit_that_it_runs(cloud: Cloud, form: str) -> None:
    """Clients register again when they read `Client not found`, and go on with their work."""
    awe = AweCalls(cloud)
    client = awe.client()
    job = awe.submit(task(), clientgroups="docker")["id"]
    unit = client.take()["id"]
    forms: dict[str, Any] = {"map": {unit: True}, "list": {"data": [unit]}}
    register(awe, client, **({} if form == "none" else {"current_work": forms[form]}))
    assert "discard" not in client.beat()
    assert "discard" not in client.beat_with(unit)
    shown = awe.data("GET", f"/client/{client.id}")
    assert (shown["current_work"], shown["total_checkout"]) == ({unit: True}, 1)
    assert client.report({"id": unit}).json["data"].endswith("completed")
    assert awe.wait(job, "completed")["remaintasks"] == 0


@pytest.mark.parametrize("current", [{}, {"data": []}, []])
def test_a_client_that_registers_without_work_leaves_its_unit_to_others(cloud: Cloud, current: Any) -> None:
    awe = AweCalls(cloud)
    client, other = awe.client(), awe.client()
    job = awe.submit(task(), clientgroups="docker")["id"]
    unit = client.take()["id"]
    register(awe, client, current_work=current)
    assert awe.data("GET", f"/client/{client.id}")["current_work"] == {}
    assert client.beat_with(unit)["discard"] == unit
    again = other.take()
    assert (again["id"], again["failed"]) == (unit, 0)
    other.finish(again)
    awe.wait(job, "completed")


def test_a_client_that_registers_again_keeps_only_the_units_that_it_names(cloud: Cloud) -> None:
    awe = AweCalls(cloud)
    client, other = awe.client(), awe.client()
    awe.submit(task(), task("1"), clientgroups="docker")
    units = [client.take()["id"] for _ in range(2)]
    register(awe, client, current_work={units[1]: True})
    assert client.beat_with(*units)["discard"] == units[0]
    assert other.take()["id"] == units[0]


def test_a_client_that_failed_too_often_stays_suspended_while_it_runs_a_unit(cloud: Cloud) -> None:
    awe = AweCalls(cloud)
    client = awe.client()
    for _ in range(6):
        awe.submit(task(), clientgroups="docker")
    held = client.take()["id"]
    for _ in range(5):
        client.finish(client.take(), "failed-permanent")
    register(awe, client, current_work={held: True})
    assert client.refused() == "Client suspended"
    client.finish({"id": held})
    register(awe, client)
    assert client.refused() in IDLE
