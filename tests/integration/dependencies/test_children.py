"""Children without a schedule: their parents start one, for any order in which these run and end."""

from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any

import pytest

from shardmill.aws.clock import new_id
from shardmill.aws.machines import Machines
from shardmill.engine import downstream
from shardmill.engine.jobs import children
from shardmill.engine.repair import repair
from shardmill.model.states import JobState
from shardmill.store.rows import JobRow
from support.aws_rules.call import ProcessKilled
from support.aws_rules.faults import Faults
from support.scenarios.job_chain import define, finish, listed, row, times, waits_for
from support.scenarios.job_runner import fail_shards
from support.scenarios.races.interrupter import Interrupter, Interruption, Moment
from support.scenarios.schedule_clock import ScheduleClock, ms

DAY_WINDOW = {"unit": "day", "from": 0, "to": 0}


def notify(schedules: ScheduleClock, parent: JobRow) -> None:
    """Deliver the end of a Job once more, or for the first time."""
    present = schedules.mill.jobs.get(parent.id)
    assert present is not None
    downstream.notify_dependents(schedules.mill, present, schedules.runner.worker.clock(), new_id)


def family(schedules: ScheduleClock, *parents: str, **job: Any) -> None:
    for name in parents:
        define(schedules, name)
    define(schedules, "child", *parents, **job)


def test_parents_that_run_at_different_hours_start_one_child(schedules: ScheduleClock) -> None:
    family(schedules, "a", "b")
    finish(schedules, "a", dataTime="2026-01-05T01:00:00Z")
    assert listed(schedules, "child") == []
    finish(schedules, "b", dataTime="2026-01-05T03:00:00Z")
    [child] = listed(schedules, "child")
    assert child["trigger"] == "20260105T030000Z"
    assert waits_for(schedules, "child", child["trigger"]) == [("a", "t1", 1), ("b", "t1", 1)]
    assert schedules.runner.run(trigger=child["trigger"], name="child")["state"] == "SUCCESS"


def test_each_start_needs_a_new_success_of_each_parent(schedules: ScheduleClock) -> None:
    family(schedules, "a", "b")
    for day in (5, 6):
        finish(schedules, "a", f"a{day}", dataTime=f"2026-01-0{day}T01:00:00Z")
        finish(schedules, "b", f"b{day}", dataTime=f"2026-01-0{day}T03:00:00Z")
        finish(schedules, "b", f"c{day}", dataTime=f"2026-01-0{day}T04:00:00Z")
    assert times(schedules, "child") == ["01-05 03:00", "01-06 01:00"]


def test_successes_of_former_parents_do_not_accumulate(
    schedules: ScheduleClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(children, "MAX_DEPENDENCIES", 2)
    family(schedules, "a", "b", "c", "last")
    for parent in ("a", "b", "c"):
        define(schedules, "child", parent, "last")
        finish(schedules, parent)
    assert schedules.mill.child_starts.get("child").succeeded.keys() == {"c"}
    finish(schedules, "last")
    assert len(listed(schedules, "child")) == 1


def test_jobs_without_a_data_time_start_one_child(schedules: ScheduleClock) -> None:
    family(schedules, "a", "b")
    for name in ("a", "b"):
        finish(schedules, name)
    [child] = listed(schedules, "child")
    assert schedules.runner.run(trigger=child["trigger"], name="child")["state"] == "SUCCESS"


def test_a_daily_and_an_hourly_parent_start_one_child_a_day(schedules: ScheduleClock) -> None:
    family(schedules, "hourly", "daily")
    schedules.save("2026-01-04 23:30", "hourly", cron="0 * * * *")
    schedules.save("2026-01-04 23:30", "daily", cron="30 2 * * *")
    for day in (5, 6):
        for hour in (0, 1, 2, 3):
            schedules.tick(f"2026-01-0{day} 0{hour}:00")
            schedules.end(f"2026-01-0{day} 0{hour}:00", "hourly")
            schedules.runner.cloud.deliver_job_ends()
            if hour == 2:
                schedules.tick(f"2026-01-0{day} 02:30")
                schedules.end(f"2026-01-0{day} 02:30", "daily")
                schedules.runner.cloud.deliver_job_ends()
    assert times(schedules, "child") == ["01-05 02:30", "01-06 02:30"]


def test_a_time_that_both_parents_have_makes_a_child_that_waits_for_both(schedules: ScheduleClock) -> None:
    family(schedules, "hourly", "daily")
    schedules.save("2026-01-04 22:30", "hourly", cron="0 * * * *")
    schedules.save("2026-01-04 22:30", "daily", cron="0 0 * * *")
    schedules.tick("2026-01-04 23:00")
    schedules.end("2026-01-04 23:00", "hourly")
    schedules.runner.cloud.deliver_job_ends()
    assert "hourly" in schedules.mill.child_starts.get("child").succeeded
    schedules.tick("2026-01-05 00:00")
    held = {lease.job_name: lease for lease in schedules.runner.take(2)}
    schedules.runner.worker.report([held["hourly"]])
    schedules.end("2026-01-05 00:00", "hourly")
    schedules.runner.cloud.deliver_job_ends()
    assert schedules.state("2026-01-05 00:00", "child") == "WAITING"
    schedules.runner.worker.report([held["daily"]])
    schedules.end("2026-01-05 00:00", "daily")
    schedules.runner.cloud.deliver_job_ends()
    assert schedules.end("2026-01-05 00:00", "child")["state"] == "SUCCESS"
    assert times(schedules, "child") == ["01-05 00:00"]
    assert schedules.mill.child_starts.get("child").succeeded == {}


def test_a_job_of_a_parent_counts_once_however_often_it_is_rerun(schedules: ScheduleClock) -> None:
    family(schedules, "a", "b")
    finish(schedules, "a", dataTime="2026-01-05T01:00:00Z")
    finish(schedules, "b", dataTime="2026-01-05T03:00:00Z")
    for name in ("a", "b", "a"):
        schedules.runner.post(f"/v1/jobs/{name}/t1:rerun", {"scope": "all"})
        schedules.runner.run(trigger="t1", name=name)
        schedules.runner.cloud.deliver_job_ends()
    assert times(schedules, "child") == ["01-05 03:00"]


def test_a_parent_that_failed_counts_when_its_rerun_succeeds(schedules: ScheduleClock) -> None:
    family(schedules, "a", "b")
    finish(schedules, "a", dataTime="2026-01-05T01:00:00Z", outcome_of=fail_shards(0))
    finish(schedules, "b", dataTime="2026-01-05T03:00:00Z")
    assert listed(schedules, "child") == []
    schedules.runner.post("/v1/jobs/a/t1:rerun")
    schedules.runner.run(trigger="t1", name="a")
    schedules.runner.cloud.deliver_job_ends()
    assert times(schedules, "child") == ["01-05 03:00"]


def test_a_repeated_event_counts_once(schedules: ScheduleClock) -> None:
    family(schedules, "a", "b")
    finish(schedules, "a", dataTime="2026-01-05T01:00:00Z")
    finish(schedules, "b", dataTime="2026-01-05T03:00:00Z")
    for name in ("a", "b", "a", "b"):
        notify(schedules, row(schedules, name, "t1"))
    assert times(schedules, "child") == ["01-05 03:00"]
    finish(schedules, "b", "t2", dataTime="2026-01-06T03:00:00Z")
    assert times(schedules, "child") == ["01-05 03:00"]


def ended_job(schedules: ScheduleClock, name: str, time: str) -> JobRow:
    """Store a Job that has just succeeded, without running it."""
    now = schedules.runner.worker.clock()
    job = JobRow(
        id=new_id(),
        jid=1,
        job_name=name,
        trigger="t1",
        version=1,
        state=JobState.SUCCESS,
        request_hash="hash",
        create_time=now,
        update_time=now,
        data_time=ms(time),
        heirs_pending=True,
    )
    assert schedules.mill.jobs.create(job, due=now)
    return job


@pytest.fixture
def interrupter(faults: Faults, monkeypatch: pytest.MonkeyPatch) -> Interrupter:
    """Interrupts at each AWS call but the start of an execution, which each of these tests would repeat."""
    monkeypatch.setattr(Machines, "start_job", lambda *_: None)
    interrupter = Interrupter()
    faults.add_rule(interrupter.around)
    return interrupter


@pytest.mark.parametrize("moment", ["before", "after"])
def test_concurrent_ends_of_parents_start_exactly_one_child(
    schedules: ScheduleClock, interrupter: Interrupter, moment: Moment
) -> None:
    """The end of b is handled at each AWS call of the handling of the end of a."""
    for calls in count(1):
        family(schedules, f"a{calls}", f"b{calls}")
        first = ended_job(schedules, f"a{calls}", "2026-01-05 00:00")
        second = ended_job(schedules, f"b{calls}", "2026-01-05 01:00")
        interruption = Interruption(moment, calls, partial(notify, schedules, second))
        interrupter.act(partial(notify, schedules, first), interruption)
        notify(schedules, second)  # a repeated event, or the first one if the call failed
        assert len(listed(schedules, "child")) == calls
        assert schedules.mill.child_starts.get("child").succeeded == {}
        if not interruption.reached:
            break
    assert calls > 8


def test_a_crash_at_each_call_starts_exactly_one_child(
    schedules: ScheduleClock, interrupter: Interrupter
) -> None:
    for calls in count(1):
        family(schedules, f"a{calls}", f"b{calls}")
        notify(schedules, ended_job(schedules, f"a{calls}", "2026-01-05 01:00"))
        parent = ended_job(schedules, f"b{calls}", "2026-01-05 03:00")
        interruption = Interruption("crash", calls)
        with suppress(ProcessKilled):
            interrupter.act(partial(notify, schedules, parent), interruption)
        repair(schedules.mill, parent.id, schedules.runner.worker.clock(), new_id)  # as the tick does
        assert len(listed(schedules, "child")) == calls
        assert schedules.mill.child_starts.get("child").starting == {}
        if not interruption.reached:
            break
    assert calls > 8


CHANGES: dict[str, tuple[str, str, Any]] = {
    "deleted": ("DELETE", "/v1/jobs/b/t1", None),
    "deleted in full": ("DELETE", "/v1/jobs/b/t1?full=true", None),
    "rerun": ("POST", "/v1/jobs/b/t1:rerun", {"scope": "all"}),
    "recomputed": ("POST", "/v1/jobs/b/t1:recompute", {"stepName": "a"}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_parent_that_changes_before_its_end_is_handled_starts_its_child(
    schedules: ScheduleClock, change: str
) -> None:
    family(schedules, "a", "b")
    finish(schedules, "a", dataTime="2026-01-05T01:00:00Z")
    schedules.runner.submit("t1", "b", dataTime="2026-01-05T03:00:00Z")
    schedules.runner.run(trigger="t1", name="b")
    assert schedules.runner.cloud.http(*CHANGES[change]).status in (200, 202, 204)
    schedules.runner.cloud.deliver_job_ends()
    [child] = listed(schedules, "child")
    assert schedules.runner.run(trigger=child["trigger"], name="child")["state"] == "SUCCESS"


def test_backfills_of_parents_that_share_their_times_start_a_child_for_each(schedules: ScheduleClock) -> None:
    family(schedules, "a", "b")
    for name in ("a", "b"):
        schedules.save("2026-01-10 00:00", name, cron="0 1 * * *")
        body = {"from": "2026-01-05", "to": "2026-01-07", "parallel": 2}
        schedules.runner.post(f"/v1/schedules/{name}/s:backfill", body, status=202)
    for day in (5, 6):
        for name in ("a", "b"):
            schedules.end(f"2026-01-0{day} 01:00", name)
    schedules.runner.cloud.deliver_job_ends()
    assert times(schedules, "child") == ["01-05 01:00", "01-06 01:00"]
    assert schedules.end("2026-01-05 01:00", "child")["state"] == "SUCCESS"


def test_backfills_of_parents_at_different_hours_count_for_the_next_child(schedules: ScheduleClock) -> None:
    family(schedules, "a", "b")
    schedules.save("2026-01-10 02:00", "a", cron="0 1 * * *")
    schedules.save("2026-01-10 02:00", "b", cron="0 3 * * *")
    body = {"from": "2026-01-05", "to": "2026-01-07", "parallel": 2}
    schedules.runner.post("/v1/schedules/a/s:backfill", body, status=202)
    for day in (5, 6):
        schedules.end(f"2026-01-0{day} 01:00", "a")
    schedules.runner.cloud.deliver_job_ends()
    assert listed(schedules, "child") == []
    schedules.tick("2026-01-10 03:00")
    schedules.end("2026-01-10 03:00", "b")
    schedules.runner.cloud.deliver_job_ends()
    assert times(schedules, "child") == ["01-10 03:00"]
    [child] = listed(schedules, "child")
    assert waits_for(schedules, "child", child["trigger"])[0][1] == "20260106T010000Z-s"


def test_the_newest_definition_decides_which_parents_count(schedules: ScheduleClock) -> None:
    family(schedules, "a", "b")
    define(schedules, "c")
    finish(schedules, "a", dataTime="2026-01-05T01:00:00Z")
    define(schedules, "child", "a", "b", "c")
    finish(schedules, "b", dataTime="2026-01-05T03:00:00Z")
    assert listed(schedules, "child") == []
    define(schedules, "child", "b", "c")
    finish(schedules, "c", dataTime="2026-01-05T02:00:00Z")
    [child] = listed(schedules, "child")
    assert [name for name, *_ in waits_for(schedules, "child", child["trigger"])] == ["b", "c"]


def test_a_child_submitted_by_a_user_does_not_count_as_a_start(schedules: ScheduleClock) -> None:
    family(schedules, "a", "b")
    finish(schedules, "a", dataTime="2026-01-05T01:00:00Z")
    schedules.runner.submit("mine", "child", dataTime="2026-01-05T02:00:00Z")
    finish(schedules, "b", dataTime="2026-01-05T03:00:00Z")
    assert times(schedules, "child") == ["01-05 02:00", "01-05 03:00"]
    assert row(schedules, "child", "mine").unmet


def test_a_start_whose_trigger_is_taken_gets_another(schedules: ScheduleClock) -> None:
    family(schedules, "a", "b")
    finish(schedules, "a", dataTime="2026-01-05T01:00:00Z")
    schedules.runner.submit("20260105T030000Z", "child", dataTime="2026-01-04T00:00:00Z")
    finish(schedules, "b", dataTime="2026-01-05T03:00:00Z")
    assert times(schedules, "child") == ["01-04 00:00", "01-05 03:00"]


def test_a_suspended_child_starts_after_its_resume(schedules: ScheduleClock) -> None:
    family(schedules, "a", "b")
    schedules.runner.post("/v1/definitions/child:suspend")
    finish(schedules, "a", dataTime="2026-01-05T01:00:00Z")
    finish(schedules, "b", dataTime="2026-01-05T03:00:00Z")
    assert listed(schedules, "child") == []
    schedules.runner.post("/v1/definitions/child:resume")
    schedules.runner.tick(minutes=5)
    assert times(schedules, "child") == ["01-05 03:00"]


GONE: dict[str, tuple[str, str, Any]] = {
    "deleted": ("DELETE", "/v1/jobs/b/t1", None),
    "deleted in full": ("DELETE", "/v1/jobs/b/t1?full=true", None),
    "killed in its next run": ("POST", "/v1/jobs/b/t1:rerun", {"scope": "all"}),
}


@pytest.mark.parametrize("parents", [("b",), ("a", "b")])
@pytest.mark.parametrize("gone", GONE)
def test_the_success_of_a_parent_that_is_removed_while_its_child_is_suspended_counts(
    schedules: ScheduleClock, gone: str, parents: tuple[str, ...]
) -> None:
    family(schedules, *parents)
    schedules.runner.post("/v1/definitions/child:suspend")
    for number, name in enumerate(parents, 1):
        finish(schedules, name, dataTime=f"2026-01-05T0{number}:00:00Z")
    gone_id = row(schedules, "b", "t1").id
    assert schedules.runner.cloud.http(*GONE[gone]).status in (200, 202, 204)
    if gone.startswith("killed"):
        schedules.runner.post("/v1/jobs/b/t1:kill")
    schedules.runner.cloud.deliver_job_ends()
    schedules.runner.tick(minutes=3)
    assert listed(schedules, "child") == []
    schedules.runner.post("/v1/definitions/child:resume")
    schedules.runner.tick(minutes=6)
    schedules.runner.tick(minutes=9)
    [child] = listed(schedules, "child")
    assert schedules.runner.run(trigger=child["trigger"], name="child")["state"] == "SUCCESS"
    schedules.runner.tick(minutes=15)
    assert len(listed(schedules, "child")) == 1
    if gone == "deleted in full":
        assert schedules.mill.jobs.get(gone_id) is None


def test_a_child_that_cannot_run_is_reported_once_and_the_next_one_starts(schedules: ScheduleClock) -> None:
    family(schedules, "a", "b", workerGroup="nowhere")
    finish(schedules, "a", dataTime="2026-01-05T01:00:00Z")
    finish(schedules, "b", dataTime="2026-01-05T03:00:00Z")
    events = [event["detail-type"] for event in schedules.runner.cloud.published()]
    assert events.count("Child Refused") == 1
    family(schedules, "a", "b")
    finish(schedules, "a", "t2", dataTime="2026-01-06T01:00:00Z")
    finish(schedules, "b", "t2", dataTime="2026-01-06T03:00:00Z")
    assert times(schedules, "child") == ["01-06 03:00"]


def test_a_waiting_child_of_the_release_before_still_starts(schedules: ScheduleClock) -> None:
    """It was created for the dataTime of one parent, and waits for the other one of the same dataTime."""
    family(schedules, "a", "b")
    schedules.runner.submit("20260105T010000Z", "child", dataTime="2026-01-05T01:00:00Z")
    finish(schedules, "a", dataTime="2026-01-05T01:00:00Z")
    finish(schedules, "b", dataTime="2026-01-05T01:00:00Z")
    assert schedules.runner.run(trigger="20260105T010000Z", name="child")["state"] == "SUCCESS"
    assert times(schedules, "child") == ["01-05 01:00"]


def test_windows_make_one_child_for_each_unit(schedules: ScheduleClock) -> None:
    define(schedules, "hourly")
    define(schedules, "daily")
    define(schedules, "child", *({"jobName": name, "window": DAY_WINDOW} for name in ("hourly", "daily")))
    schedules.save("2026-01-04 23:30", "hourly", cron="0 1,2 * * *")
    schedules.save("2026-01-04 23:30", "daily", cron="30 1 * * *")
    for day in (5, 6):
        for time, name in (("01:00", "hourly"), ("01:30", "daily"), ("02:00", "hourly")):
            schedules.tick(f"2026-01-0{day} {time}")
            schedules.end(f"2026-01-0{day} {time}", name)
            schedules.runner.cloud.deliver_job_ends()
            waits = schedules.job(f"2026-01-0{day} 00:00", "child").unmet
            assert waits == (time != "02:00"), time
    assert times(schedules, "child") == ["01-05 00:00", "01-06 00:00"]


def test_a_window_of_the_previous_unit_makes_the_child_of_the_next_one(schedules: ScheduleClock) -> None:
    define(schedules, "hourly")
    window = {"unit": "day", "from": -1, "to": -1}
    define(schedules, "child", {"jobName": "hourly", "window": window})
    schedules.save("2026-01-04 20:00", "hourly", cron="0 1,2 * * *", timezone="Europe/Berlin")
    for time in ("00:00", "01:00"):
        schedules.tick(f"2026-01-05 {time}")
        schedules.end(f"2026-01-05 {time}", "hourly")
        schedules.runner.cloud.deliver_job_ends()
    assert times(schedules, "child") == ["01-05 23:00"]  # midnight in Berlin
    assert schedules.end("2026-01-05 23:00", "child")["state"] == "SUCCESS"


def test_a_child_of_a_window_expires_after_the_end_of_its_window(schedules: ScheduleClock) -> None:
    define(schedules, "daily")
    window = {"unit": "month", "from": 0, "to": 0}
    define(schedules, "child", {"jobName": "daily", "window": window}, expiredSeconds=3600)
    schedules.save("2100-01-01 00:00", "daily", cron="0 1 * * *")
    finish(schedules, "daily", dataTime="2100-01-01T01:00:00Z")
    [child] = listed(schedules, "child")
    assert row(schedules, "child", child["trigger"]).expires == ms("2100-02-01 01:00")


def test_the_narrowest_of_several_windows_is_the_unit(schedules: ScheduleClock) -> None:
    define(schedules, "a")
    define(schedules, "b")
    hour = {"unit": "hour", "from": 0, "to": 0}
    define(schedules, "child", {"jobName": "b", "window": DAY_WINDOW}, {"jobName": "a", "window": hour})
    finish(schedules, "b", dataTime="2026-01-05T03:20:00Z")
    for minute in (10, 40):
        finish(schedules, "a", f"t{minute}", dataTime=f"2026-01-05T03:{minute}:00Z")
    finish(schedules, "a", dataTime="2026-01-05T04:00:00Z")
    assert times(schedules, "child") == ["01-05 03:00", "01-05 04:00"]


def test_a_parent_with_a_window_starts_no_child_beside_one_without(schedules: ScheduleClock) -> None:
    define(schedules, "a")
    define(schedules, "hourly")
    define(schedules, "child", "a", {"jobName": "hourly", "window": DAY_WINDOW})
    finish(schedules, "hourly", dataTime="2026-01-05T03:00:00Z")
    assert listed(schedules, "child") == []
    finish(schedules, "a", dataTime="2026-01-05T05:00:00Z")
    assert times(schedules, "child") == ["01-05 05:00"]
    assert schedules.end("2026-01-05 05:00", "child")["state"] == "SUCCESS"
