"""The end of a Job on which nothing depends needs no further call; no dependent is overlooked."""

from __future__ import annotations

from typing import Any

import pytest

from shardmill.aws.bus import Bus
from shardmill.model.states import JobState
from support.aws_rules.faults import Faults
from support.scenarios.job_chain import A, define, listed, row
from support.scenarios.job_runner import OutcomeOf, fail_shards, succeed
from support.scenarios.schedule_clock import ScheduleClock

DAY = "2026-01-05T00:00:00Z"


def end(schedules: ScheduleClock, outcome_of: OutcomeOf = succeed, **request: Any) -> dict[str, Any]:
    """Run a Job to its end, without delivering its event; return the event's detail."""
    schedules.runner.submit("t1", "parent", **request)
    schedules.runner.run(outcome_of, trigger="t1", name="parent")
    return ended_event(schedules)


def ended_event(schedules: ScheduleClock) -> dict[str, Any]:
    published = [each for each in schedules.runner.cloud.published() if each["detail-type"] == "Job Ended"]
    [event] = [each["detail"] for each in published if each["detail"]["jobName"] == "parent"]
    return event


def test_the_end_of_a_job_without_dependents_is_complete_with_its_event(schedules: ScheduleClock) -> None:
    define(schedules, "parent")
    cloud = schedules.runner.cloud
    assert "dependents" not in end(schedules)
    ended = row(schedules, "parent", "t1")
    assert (ended.event_pending, ended.heirs_pending) == (False, False)
    assert schedules.mill.watches.due(10**14, limit=9) == []
    functions = [function for function, _ in cloud.functions.invoked]
    assert (functions.count("orchestrate"), functions.count("dependency")) == (2, 0)


def test_an_ended_job_without_dependents_is_deleted_when_its_retention_ends(schedules: ScheduleClock) -> None:
    schedules.runner.define(A, name="parent", retentionDays=1)
    end(schedules)
    [due] = schedules.mill.watches.due(10**14, limit=9)
    assert due.seen == (row(schedules, "parent", "t1").completed_time or 0) + 86_400_000
    schedules.runner.tick(minutes=25 * 60)
    assert schedules.mill.jobs.find("parent", "t1") is None


def test_the_event_names_a_child_and_the_tick_starts_it_if_the_event_is_lost(
    schedules: ScheduleClock,
) -> None:
    define(schedules, "parent")
    define(schedules, "child", "parent")
    assert end(schedules, dataTime=DAY)["dependents"] is True
    assert row(schedules, "parent", "t1").heirs_pending
    assert listed(schedules, "child") == []
    schedules.runner.tick(minutes=5)
    assert [job["dataTime"] for job in listed(schedules, "child")] == ["2026-01-05T00:00:00.000Z"]


@pytest.mark.parametrize(("waiting", "expected"), [(True, True), (False, None)])
def test_the_event_of_a_failed_job_names_only_jobs_that_wait(
    schedules: ScheduleClock, waiting: bool, expected: bool | None
) -> None:
    define(schedules, "parent")
    define(schedules, "child", "parent")
    if waiting:
        schedules.runner.submit("c1", "child", dataTime=DAY)
    assert end(schedules, fail_shards(0), dataTime=DAY).get("dependents") is expected


def test_a_definition_that_depends_on_its_own_last_run_has_no_other_dependents(
    schedules: ScheduleClock,
) -> None:
    window = {"unit": "day", "from": -1, "to": -1}
    define(schedules, "parent", {"jobName": "parent", "window": window, "strategy": "any"})
    schedules.runner.submit("t1", "parent", dataTime=DAY)
    schedules.runner.post("/v1/jobs/parent/t1:start")
    schedules.runner.run(trigger="t1", name="parent")
    assert "dependents" not in ended_event(schedules)


def test_the_end_is_published_as_having_dependents_if_they_cannot_be_read(
    schedules: ScheduleClock, faults: Faults
) -> None:
    define(schedules, "parent")
    of_edges = faults.fail(
        "dynamodb", "Query", when=lambda call: "EDGE#parent" in str(call.params["ExpressionAttributeValues"])
    )
    assert end(schedules)["dependents"] is True
    assert of_edges.hits == 1
    schedules.runner.tick(minutes=5)
    assert not row(schedules, "parent", "t1").heirs_pending


def test_a_job_that_begins_to_wait_after_the_end_was_written_sees_it(
    schedules: ScheduleClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child is submitted after the parent has looked for dependents, before it publishes its end."""
    define(schedules, "parent")
    publish = Bus.publish

    def submit_child_first(bus: Bus, kind: str, detail: dict[str, Any]) -> None:
        if kind == "Job Ended":
            define(schedules, "child", "parent")
            schedules.runner.submit("c1", "child", dataTime=DAY)
        publish(bus, kind, detail)

    monkeypatch.setattr(Bus, "publish", submit_child_first)
    assert "dependents" not in end(schedules, dataTime=DAY)
    schedules.runner.cloud.run_until(lambda: row(schedules, "child", "c1").state is not JobState.WAITING)
