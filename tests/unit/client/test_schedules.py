"""Schedules, backfills and dependencies with the SDK, against a fake API."""

import time
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx
import pytest

from shardmill.client.client import Client
from shardmill.client.errors import BadAnswer, BadName, Invalid, PreconditionFailed, Unreachable
from shardmill.client.schedules import ScheduleFields
from shardmill.model.time.schedule import Schedule, check_schedule
from support.fakes.api import TOKEN, FakeApi, Reply, backfill, job, page, parent_run, problem, schedule, when

PATH = "/v1/schedules/report/nightly"


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def client(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    with Client("http://127.0.0.1:1", TOKEN, transport=api.transport()) as started:
        yield started


def test_a_schedule_is_saved_from_a_document_a_file_or_a_model(
    api: FakeApi, client: Client, tmp_path: Path
) -> None:
    api.on("PUT", PATH, Reply(schedule(), 201))
    file = tmp_path / "nightly.yaml"
    file.write_text("cron: '@daily'\nstartDate: 2026-01-01\n")
    document = {"cron": "@daily", "startDate": "2026-01-01"}
    named = {**document, "jobName": "report", "scheduleId": "nightly"}
    model, _ = check_schedule(document, "report", "nightly")
    assert model
    for source, sent in ((document, document), (file, document), (str(file), document), (model, named)):
        assert client.save_schedule("report", "nightly", source).version == 3
        assert api.requests[-1].document == sent
        assert not {"if-match", "if-none-match"} & set(api.requests[-1].headers)


def test_a_schedule_is_saved_from_fields(api: FakeApi, client: Client) -> None:
    api.on("PUT", PATH, schedule())
    client.save_schedule(
        "report",
        "nightly",
        at=datetime(2026, 1, 1, 4, tzinfo=UTC),
        start_date=date(2026, 1, 1),
        end_date="20261231",
        max_lateness_seconds=0,
        params=MappingProxyType({"x": None}),
        status=0,
    )
    sent = api.requests[-1].document
    assert sent == {
        "at": "2026-01-01T04:00:00.000Z",
        "startDate": "2026-01-01",
        "endDate": "20261231",
        "maxLatenessSeconds": 0,
        "params": {"x": None},
        "status": 0,
    }
    assert check_schedule(sent, "report", "nightly")[1] == []


def test_fields_override_the_document(api: FakeApi, client: Client) -> None:
    api.on("GET", PATH, schedule(params={"a": None}))
    api.on("PUT", PATH, schedule())
    read = client.schedule("report", "nightly")
    client.save_schedule("report", "nightly", read, cron=None, every_seconds=60, expected=read.version)
    sent = api.requests[-1].document
    assert (sent["cron"], sent["everySeconds"], sent["params"]) == (None, 60, {"a": None})
    assert check_schedule(sent, "report", "nightly")[1] == []
    assert api.requests[-1].headers["if-match"] == '"v3"'
    client.save_schedule("report", "nightly", {"cron": "@daily"}, expected=0)
    assert api.requests[-1].headers["if-none-match"] == "*"


def test_the_keyword_arguments_are_the_fields_of_a_schedule() -> None:
    assert set(ScheduleFields.__annotations__) == set(Schedule.model_fields) - {"job_name", "schedule_id"}


def test_schedules_are_validated_by_the_server(api: FakeApi, client: Client) -> None:
    fault = {"pointer": "/cron", "code": "bad-cron", "message": "is not understood"}
    api.on("PUT", PATH, problem(422, "bad-cron", "the schedule is not valid", faults=[fault]))
    with pytest.raises(Invalid) as caught:
        client.save_schedule("report", "nightly", cron="x")
    assert [each.pointer for each in caught.value.faults] == ["/cron"]


def test_schedules_are_read_listed_and_deleted(api: FakeApi, client: Client) -> None:
    api.on("GET", PATH, schedule())
    api.on("GET", "/v1/schedules", page(schedule(), cursor="c"), page(schedule(scheduleId="other")))
    api.on("GET", "/v1/schedules/report", page(schedule()))
    api.on("DELETE", PATH, Reply(None, 204))
    assert client.schedule("report", "nightly").timezone == "Europe/Berlin"
    assert [each.schedule_id for each in client.schedules()] == ["nightly", "other"]
    assert [each.schedule_id for each in client.schedules("report")] == ["nightly"]
    client.delete_schedule("report", "nightly")
    assert "if-match" not in api.requests[-1].headers
    client.delete_schedule("report", "nightly", expected=3)
    assert api.requests[-1].headers["if-match"] == '"v3"'


def test_switching_a_schedule_keeps_all_fields_and_is_conditional(api: FakeApi, client: Client) -> None:
    api.on("GET", PATH, schedule())
    api.on("PUT", PATH, schedule(status=0, version=4))
    assert client.switch_schedule("report", "nightly", on=False).version == 4
    assert api.requests[-1].document == schedule(status=0)
    assert api.requests[-1].headers["if-match"] == '"v3"'
    api.on("PUT", PATH, problem(412, "precondition-failed", "is at version 4"))
    with pytest.raises(PreconditionFailed):
        client.switch_schedule("report", "nightly", on=False)


def test_switching_to_the_current_status_saves_nothing(api: FakeApi, client: Client) -> None:
    api.on("GET", PATH, schedule())
    assert client.switch_schedule("report", "nightly", on=True).version == 3
    assert api.request_lines == [f"GET {PATH}"]


def test_next_times_are_read(api: FakeApi, client: Client) -> None:
    api.on("GET", f"{PATH}/next", page(when("2026-03-28T01:30:00.000Z", "2026-03-28T02:30:00+01:00")))
    [found] = client.next_times("report", "nightly")
    assert (found.utc, found.local) == (
        datetime(2026, 3, 28, 1, 30, tzinfo=UTC),
        "2026-03-28T02:30:00+01:00",
    )
    client.next_times("report", "nightly", 3, "2026-03-28T00:00:00+01:00")
    queries = [each.query for each in api.requests]
    assert queries == [{"count": "10"}, {"count": "3", "from": "2026-03-27T23:00:00.000Z"}]
    with pytest.raises(Invalid) as caught:
        client.next_times("report", "nightly", after="tomorrow")
    assert caught.value.faults[0].pointer == "/from"


def test_fire_returns_whether_the_job_is_new(api: FakeApi, client: Client) -> None:
    api.on("POST", f"{PATH}:fire", Reply(job("INIT"), 202), Reply(job("RUNNING"), 200))
    fired = client.fire("report", "nightly", datetime(2026, 1, 5, tzinfo=UTC), {"x": 1})
    assert (fired.new, fired.trigger) == (True, "t1")
    assert api.requests[-1].document == {"dataTime": "2026-01-05T00:00:00.000Z", "params": {"x": 1}}
    assert client.fire("report", "nightly").new is False
    assert api.requests[-1].document == {}


@pytest.mark.parametrize(("data_time", "attempts"), [(None, 1), ("2026-01-05T00:00:00Z", 2)])
def test_firing_is_retried_only_with_a_data_time(
    api: FakeApi, client: Client, data_time: str | None, attempts: int
) -> None:
    api.on("POST", f"{PATH}:fire", Reply(error=httpx.ReadTimeout), Reply(job("INIT"), 202))
    if attempts == 1:
        with pytest.raises(Unreachable):
            client.fire("report", "nightly", data_time)
    else:
        client.fire("report", "nightly", data_time)
    assert len(api.requests) == attempts


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        (
            {"start": datetime(2026, 1, 1, tzinfo=UTC), "end": "2026-02-01T00:00:00Z"},
            {"from": "2026-01-01T00:00:00.000Z", "to": "2026-02-01T00:00:00.000Z"},
        ),
        (
            {"times": [date(2026, 1, 1), "20260103", datetime(2026, 1, 5, 3, tzinfo=UTC)]},
            {"times": ["2026-01-01", "20260103", "2026-01-05T03:00:00.000Z"]},
        ),
        (
            {"times": ["2026-01-01"], "parallel": 4, "order": "desc", "force": True},
            {"times": ["2026-01-01"], "parallel": 4, "order": "desc", "force": True},
        ),
    ],
)
def test_a_backfill_request_has_the_documented_form(
    api: FakeApi, client: Client, options: dict[str, Any], sent: dict[str, Any]
) -> None:
    api.on("POST", f"{PATH}:backfill", Reply(backfill(), 202))
    assert client.backfill("report", "nightly", **options).number == 2
    assert api.requests[-1].document == {"parallel": 1, "order": "asc", "force": False, **sent}


def test_backfills_are_read_listed_and_stopped(api: FakeApi, client: Client) -> None:
    api.on("GET", f"{PATH}/backfills", page(backfill(), cursor="c"), page(backfill(number=1)))
    api.on("GET", f"{PATH}/backfills/2", backfill(success=1))
    api.on("POST", f"{PATH}/backfills/2:stop", backfill("STOPPED"))
    assert [each.number for each in client.backfills("report", "nightly")] == [2, 1]
    assert client.backfill_status("report", "nightly", 2).success == 1
    assert client.stop_backfill("report", "nightly", 2).state == "STOPPED"


def test_dependencies_and_the_graph_of_definitions_are_read(api: FakeApi, client: Client) -> None:
    api.on("GET", "/v1/jobs/report/t1/dependencies", page(parent_run(), parent_run(preState="SUCCESS")))
    assert [each.pre_status for each in client.dependencies("report", "t1")] == [0, 1]
    assert api.requests[-1].query == {"limit": "200"}
    node = {"jobName": "ledger", "defined": False, "schedules": []}
    edges = [{"parent": "ledger", "child": "report"}]
    api.on("GET", "/v1/definitions:graph", {"nodes": [node], "edges": edges})
    found = client.job_graph()
    assert (found.nodes[0].defined, found.edges[0].child) == (False, "report")
    api.on("GET", "/v1/definitions:graph", {"nodes": None})
    with pytest.raises(BadAnswer):
        client.job_graph()


@pytest.mark.parametrize("name", ["", "a/b", "1x", "x" * 65])
def test_an_invalid_schedule_name_is_not_sent(api: FakeApi, client: Client, name: str) -> None:
    for act in (
        lambda: client.schedule("report", name),
        lambda: client.save_schedule(name, "nightly", cron="@daily"),
        lambda: client.fire("report", name),
        lambda: client.backfill_status("report", name, 1),
        lambda: list(client.schedules(name)),
    ):
        with pytest.raises(BadName, match="is not a valid"):
            act()
    assert not api.requests
