"""Jobs that wait for Jobs: started by parents or by schedules, exactly once, with nothing lost."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from shardmill.aws.clock import new_id
from shardmill.engine import downstream
from shardmill.engine.jobs.dependencies import met, runs
from shardmill.model.states import JobState
from shardmill.store.rows import JobRow
from support.diary import Diary, at, ms
from support.faults import Faults
from support.play import Play, fail_shards

DAY = "2026-01-05T00:00:00Z"
A = {"stepName": "a"}


@pytest.fixture
def diary(play: Play) -> Diary:
    return Diary(play)


def define(diary: Diary, name: str, *parents: Any, **job: Any) -> None:
    diary.play.define(A, name=name, dependencies=list(parents), **job)


def finish(
    diary: Diary, name: str, trigger: str = "t1", *, judge: Any = None, **request: Any
) -> dict[str, Any]:
    """Run a Job to its end and let the bus tell of it."""
    diary.play.submit(trigger, name, **request)
    job = diary.play.run(*([judge] if judge else []), trigger=trigger, name=name)
    diary.play.cloud.tell_dependency()
    return job


def listed(diary: Diary, name: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = diary.play.cloud.http("GET", f"/v1/jobs?jobName={name}").json["items"]
    return items


def waits_for(diary: Diary, name: str, trigger: str) -> list[tuple[str, str | None, int]]:
    answer = diary.play.cloud.http("GET", f"/v1/jobs/{name}/{trigger}/dependencies")
    assert answer.status == 200, answer
    return [(each["preJob"], each["preTrigger"], each["preStatus"]) for each in answer.json["items"]]


def test_a_parent_starts_its_child_of_the_same_data_time(diary: Diary) -> None:
    define(diary, "parent")
    define(diary, "child", "parent")
    finish(diary, "parent", dataTime=DAY)
    [child] = listed(diary, "child")
    assert (child["dataTime"], child["trigger"]) == ("2026-01-05T00:00:00.000Z", "20260105T000000Z")
    assert diary.play.run(trigger=child["trigger"], name="child")["state"] == "SUCCESS"
    assert waits_for(diary, "child", child["trigger"]) == [("parent", "t1", 1)]


def test_a_chain_follows_a_job_submitted_by_hand(diary: Diary) -> None:
    define(diary, "one")
    define(diary, "two", "one")
    define(diary, "three", "two")
    finish(diary, "one")
    for name in ("two", "three"):
        [job] = listed(diary, name)
        diary.play.run(trigger=job["trigger"], name=name)
        diary.play.cloud.tell_dependency()
    assert len({job["dataTime"] for name in ("two", "three") for job in listed(diary, name)}) == 1


def test_with_two_parents_the_last_one_starts_the_child(diary: Diary) -> None:
    define(diary, "left")
    define(diary, "right")
    define(diary, "child", "left", {"jobName": "right"})
    finish(diary, "left", dataTime=DAY)
    [child] = listed(diary, "child")
    assert child["state"] == "WAITING"
    assert waits_for(diary, "child", child["trigger"]) == [("left", "t1", 1), ("right", None, 0)]
    shown = diary.play.job(child["trigger"], "child")
    assert shown["waitingFor"] == ["waits for right of 2026-01-05T00:00:00Z"]
    finish(diary, "right", dataTime=DAY)
    assert diary.play.run(trigger=child["trigger"], name="child")["state"] == "SUCCESS"
    assert len(listed(diary, "child")) == 1


def test_two_parents_that_finish_together_start_one_child_once(diary: Diary) -> None:
    names = [f"p{number}" for number in range(4)]
    for name in names:
        define(diary, name)
    define(diary, "child", *names)
    for name in names:
        diary.play.submit("t1", name, dataTime=DAY)
        diary.play.run(trigger="t1", name=name)
    ended = [diary.job("2026-01-05 00:00", name) for name in names]
    with ThreadPoolExecutor(8) as pool:
        now = diary.play.hands.clock()
        list(pool.map(lambda job: downstream.notify_dependents(diary.mill, job, now, new_id), ended * 2))
    [child] = listed(diary, "child")
    assert diary.play.run(trigger=child["trigger"], name="child")["state"] == "SUCCESS"
    assert len([e for e in diary.play.cloud.executions("job") if child["id"] in e["name"]]) == 1


def test_a_parent_that_is_told_of_again_starts_nothing_more(diary: Diary) -> None:
    define(diary, "parent")
    define(diary, "child", "parent")
    finish(diary, "parent", dataTime=DAY)
    parent = diary.job("2026-01-05 00:00", "parent")
    downstream.notify_dependents(diary.mill, parent, diary.play.hands.clock(), new_id)
    assert len(listed(diary, "child")) == 1


def test_a_rerun_of_a_parent_starts_no_second_child_and_a_late_success_counts(diary: Diary) -> None:
    define(diary, "parent")
    define(diary, "child", "parent")
    http = diary.play.cloud.http
    finish(diary, "parent", dataTime=DAY, judge=fail_shards(0))
    assert listed(diary, "child") == []
    for scope in ("failed", "all"):
        assert http("POST", "/v1/jobs/parent/t1:rerun", {"scope": scope}).status == 200
        diary.play.run(trigger="t1", name="parent")
        diary.play.cloud.tell_dependency()
        [child] = listed(diary, "child")
        assert diary.play.run(trigger=child["trigger"], name="child")["run"] == 1


def test_a_failed_parent_starts_nothing_and_shows_in_the_notes(diary: Diary) -> None:
    define(diary, "left")
    define(diary, "right")
    define(diary, "child", "left", "right")
    finish(diary, "right", dataTime=DAY, judge=fail_shards(0))
    assert listed(diary, "child") == []
    finish(diary, "left", dataTime=DAY)
    [child] = listed(diary, "child")
    assert (child["state"], child["notes"]) == ("WAITING", "waits for right/t1 (FAILED)")


def test_a_child_with_a_schedule_waits_for_it_and_for_its_parents(diary: Diary) -> None:
    define(diary, "parent")
    define(diary, "child", "parent")
    diary.save("2026-01-04 12:00", "child", cron="0 0 * * *")
    finish(diary, "parent", dataTime="2026-01-04T00:00:00Z")
    assert listed(diary, "child") == []
    diary.tick("2026-01-05 00:00")
    assert diary.state("2026-01-05 00:00", "child") == "WAITING"
    finish(diary, "parent", "t2", dataTime=DAY)
    assert diary.end("2026-01-05 00:00", "child")["state"] == "SUCCESS"


def test_a_daily_job_waits_for_every_hour_of_its_parent(diary: Diary) -> None:
    define(diary, "hourly")
    define(diary, "daily", {"jobName": "hourly", "window": {"unit": "day", "from": -1, "to": -1}})
    diary.save("2026-01-03 23:00", "hourly", cron="0 */6 * * *", catchUp="all")
    diary.save("2026-01-04 12:00", "daily", cron="0 1 * * *")
    diary.tick("2026-01-04 12:00")
    diary.tick("2026-01-05 01:00")
    hours = ["00:00", "06:00", "12:00", "18:00"]
    daily = diary.job("2026-01-05 01:00", "daily")
    assert [status for *_, status in waits_for(diary, "daily", daily.trigger)] == [0, 0, 0, 0]
    held = {lease.trigger: lease for lease in diary.play.take(5)}
    for hour in hours:
        assert diary.state("2026-01-05 01:00", "daily") == "WAITING"
        diary.play.hands.report([held[diary.job(f"2026-01-04 {hour}", "hourly").trigger]])
        parent = diary.play.cloud.run_until(lambda hour=hour: _succeeded(diary, f"2026-01-04 {hour}"))  # type: ignore[misc]
        downstream.notify_dependents(diary.mill, parent, ms("2026-01-05 01:30"), new_id)
    assert diary.end("2026-01-05 01:00", "daily")["state"] == "SUCCESS"
    assert [status for *_, status in waits_for(diary, "daily", daily.trigger)] == [1, 1, 1, 1]


def _succeeded(diary: Diary, time: str) -> JobRow | None:
    job = diary.job(time, "hourly")
    return job if job.state is JobState.SUCCESS else None


def test_skipped_firings_are_not_expected(diary: Diary) -> None:
    define(diary, "hourly")
    define(diary, "daily", {"jobName": "hourly", "window": {"unit": "day", "from": 0, "to": 0}})
    diary.save("2026-01-04 00:00", "hourly", cron="0 1-3 * * *", overlap="skip")
    for hour in (1, 2):
        diary.tick(f"2026-01-04 0{hour}:00")
    diary.end("2026-01-04 01:00", "hourly")
    diary.tick("2026-01-04 03:00")
    diary.play.submit("t1", "daily", dataTime="2026-01-04T00:00:00Z")
    expected = waits_for(diary, "daily", "t1")
    assert [(name, status) for name, _, status in expected] == [("hourly", 1), ("hourly", 0)]


@pytest.mark.parametrize(
    ("strategy", "ends", "is_met"),
    [
        ("all", "SSS", True),
        ("all", "SFS", False),
        ("any", "FSF", True),
        ("any", "FFF", False),
        ("last:2", "FSS", True),
        ("last:2", "SSF", False),
    ],
)
def test_strategies(diary: Diary, strategy: str, ends: str, is_met: bool) -> None:
    define(diary, "parent")
    window = {"unit": "day", "from": 0, "to": 0}
    define(diary, "child", {"jobName": "parent", "window": window, "strategy": strategy}, expiredSeconds=60)
    diary.save("2026-01-05 00:00", "child", cron="0 0 1 1 *")
    for number, end in enumerate(ends):
        judge = fail_shards(0) if end == "F" else fail_shards()
        finish(diary, "parent", f"t{number}", judge=judge, dataTime=f"2026-01-05T0{number}:00:00Z")
    diary.play.submit("c", "child", dataTime="2026-01-05T10:00:00Z")
    child = diary.mill.jobs.find("child", "c")
    assert child is not None
    assert all(met(each) for each in runs(diary.mill, child)) == is_met
    assert (child.state is JobState.WAITING and child.unmet) != is_met


def test_a_window_without_any_run_is_not_met(diary: Diary) -> None:
    define(diary, "parent")
    define(diary, "child", {"jobName": "parent", "window": {"unit": "month", "from": 0, "to": 0}})
    diary.play.submit("c", "child", dataTime=DAY)
    assert waits_for(diary, "child", "c") == [("parent", None, 0)]
    finish(diary, "parent", dataTime="2026-01-31T23:59:59Z")
    assert diary.play.run(trigger="c", name="child")["state"] == "SUCCESS"


def test_waiting_ends_after_expired_seconds(diary: Diary) -> None:
    define(diary, "parent")
    define(diary, "child", "parent", expiredSeconds=600)
    diary.play.submit("c", "child", dataTime=DAY)
    diary.play.tick(minutes=9)
    assert diary.play.job("c", "child")["state"] == "WAITING"
    diary.play.tick(minutes=11)
    job = diary.play.job("c", "child")
    assert (job["state"], job["notes"]) == ("FAILED", "expired: waits for parent of 2026-01-05T00:00:00Z")
    finish(diary, "parent", dataTime=DAY)
    assert diary.play.job("c", "child")["state"] == "FAILED"


def test_a_lost_event_is_made_good_by_the_tick(diary: Diary) -> None:
    define(diary, "parent")
    define(diary, "child", "parent")
    diary.play.submit("t1", "parent", dataTime=DAY)
    diary.play.run(trigger="t1", name="parent")
    diary.play.cloud.published()  # and nobody is told
    assert listed(diary, "child") == []
    diary.play.cloud.tick(at("2100-01-01 00:00"))
    assert [job["trigger"] for job in listed(diary, "child")] == ["20260105T000000Z"]


def test_a_child_that_was_written_but_not_started_is_started_by_the_tick(
    diary: Diary, faults: Faults
) -> None:
    define(diary, "parent")
    define(diary, "child", "parent")
    diary.play.submit("t1", "parent", dataTime=DAY)
    diary.play.run(trigger="t1", name="parent")
    faults.fail("stepfunctions", "StartExecution", how="before")
    diary.play.cloud.tell_dependency()
    [child] = listed(diary, "child")
    diary.play.tick(minutes=3)
    assert diary.play.run(trigger=child["trigger"], name="child")["state"] == "SUCCESS"


def test_cycles_are_refused_with_their_names(diary: Diary) -> None:
    define(diary, "a", "c")
    define(diary, "b", "a")
    refused = diary.play.cloud.http("PUT", "/v1/definitions/c", {"steps": [A], "dependencies": ["x", "b"]})
    assert refused.status == 422
    [fault] = refused.json["faults"]
    assert (fault["code"], fault["pointer"]) == ("cyclic-jobs", "/dependencies/1/jobName")
    assert fault["message"] == "jobs wait for each other: c -> b -> a -> c"
    itself = diary.play.cloud.http("PUT", "/v1/definitions/d", {"steps": [A], "dependencies": ["d"]})
    assert itself.json["faults"][0]["message"] == "jobs wait for each other: d -> d"
    yesterday = {"jobName": "d", "window": {"unit": "day", "from": -1, "to": -1}}
    assert (
        diary.play.cloud.http("PUT", "/v1/definitions/d", {"steps": [A], "dependencies": [yesterday]}).status
        == 201
    )


def test_rivals_cannot_close_a_cycle_together(diary: Diary) -> None:
    names = ["a", "b", "c"]

    def save(at: int) -> int:
        document = {"steps": [A], "dependencies": [names[at - 1]]}
        return diary.play.cloud.http("PUT", f"/v1/definitions/{names[at]}", document).status

    with ThreadPoolExecutor(3) as pool:
        statuses = list(pool.map(save, range(3)))
    assert sorted(statuses) == [201, 201, 422]


def test_a_definition_that_others_depend_on_is_not_deleted(diary: Diary) -> None:
    define(diary, "parent")
    define(diary, "b-child", "parent")
    define(diary, "a-child", "parent")
    http = diary.play.cloud.http
    refused = http("DELETE", "/v1/definitions/parent")
    assert (refused.status, refused.json["code"]) == (409, "definition-in-use")
    assert "a-child, b-child" in refused.json["detail"]
    define(diary, "a-child")
    assert http("DELETE", "/v1/definitions/b-child").status == 204
    assert http("DELETE", "/v1/definitions/parent").status == 204


def test_the_graph_of_jobs(diary: Diary) -> None:
    define(diary, "child", "parent", "unknown")
    define(diary, "parent")
    diary.save("2026-01-01 00:00", "parent", cron="@daily")
    graph = diary.play.cloud.http("GET", "/v1/definitions:graph").json
    assert [(node["jobName"], node["defined"], node["schedules"]) for node in graph["nodes"]] == [
        ("child", True, []),
        ("parent", True, ["s"]),
        ("unknown", False, []),
    ]
    assert graph["edges"] == [
        {"parent": "parent", "child": "child"},
        {"parent": "unknown", "child": "child"},
    ]


@pytest.mark.parametrize(
    ("dependency", "code"),
    [
        ({"jobName": "p", "window": {"unit": "day", "from": -1}}, "open-window"),
        ({"jobName": "p", "window": {"unit": "day", "to": 0}}, "open-window"),
        ({"jobName": "p", "window": {"unit": "day", "from": 1, "to": 0}}, "bad-value"),
        ({"jobName": "p", "window": {"unit": "fortnight", "from": 0, "to": 0}}, "bad-value"),
        ({"jobName": "p", "strategy": "last:0"}, "bad-value"),
        ({"jobName": "p", "job": "q"}, "unknown-field"),
        (7, "bad-type"),
    ],
    ids=str,
)
def test_bad_dependencies_are_refused(diary: Diary, dependency: Any, code: str) -> None:
    answer = diary.play.cloud.http("PUT", "/v1/definitions/c", {"steps": [A], "dependencies": [dependency]})
    assert (answer.status, [each["code"] for each in answer.json["faults"]]) == (422, [code])


def test_a_job_that_waits_for_the_same_data_time_needs_one(diary: Diary) -> None:
    define(diary, "child", "parent")
    answer = diary.play.cloud.http("POST", "/v1/jobs", {"jobName": "child", "trigger": "t"})
    assert (answer.status, answer.json["faults"][0]["pointer"]) == (422, "/dataTime")


def test_a_window_that_expects_too_many_runs_is_refused(diary: Diary) -> None:
    define(diary, "often")
    define(diary, "child", {"jobName": "often", "window": {"unit": "month", "from": 0, "to": 0}})
    diary.save("2026-01-01 00:00", "often", everySeconds=60)
    request = {"jobName": "child", "trigger": "t", "dataTime": DAY}
    answer = diary.play.cloud.http("POST", "/v1/jobs", request)
    assert (answer.status, answer.json["faults"][0]["code"]) == (422, "window-too-wide")


def test_edges_go_when_they_are_not_needed(diary: Diary) -> None:
    define(diary, "parent")
    define(diary, "child", "parent")
    finish(diary, "parent", dataTime=DAY)
    assert list(diary.mill.runs.waiting_for("parent", ms("2026-01-05 00:00"))) == []
