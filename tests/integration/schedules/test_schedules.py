"""Schedules: each due time fires once, according to the overlap and catch-up settings."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from shardmill.engine import definitions
from shardmill.engine.access.visible import Visible
from shardmill.engine.errors import Busy, DefinitionInUse, DefinitionNotFound, PreconditionFailed
from shardmill.engine.schedules import due, fire, manage
from shardmill.model.actor import Actor
from support.aws_rules.faults import Faults
from support.scenarios.job_runner import JobRunner
from support.scenarios.schedule_clock import ScheduleClock, at, ms


@pytest.fixture
def schedules(runner: JobRunner) -> ScheduleClock:
    runner.define({"stepName": "a"})
    return ScheduleClock(runner)


def test_a_due_time_starts_one_job(schedules: ScheduleClock) -> None:
    schedules.save("2026-01-01 00:00", cron="30 4 * * *", params={"x": 1})
    assert schedules.tick("2026-01-01 04:29")["fired"] == 0
    assert schedules.tick("2026-01-01 04:30")["fired"] == 1
    assert schedules.tick("2026-01-01 04:31")["fired"] == 0
    job = schedules.end("2026-01-01 04:30")
    assert job["trigger"] == "20260101T043000Z-s"
    assert (job["dataTime"], job["params"]) == ("2026-01-01T04:30:00.000Z", {"x": 1})
    assert (job["submitUser"], job["scheduleId"], job["state"]) == ("planner", "s", "SUCCESS")
    [entry] = schedules.history()
    assert (entry["outcome"], entry["jobId"], entry["trigger"]) == ("started", job["id"], job["trigger"])
    assert schedules.next() == "2026-01-02 04:30"


def test_the_minute_rule_fires_schedules(schedules: ScheduleClock) -> None:
    schedules.save(
        "2026-01-01 00:00", at="2026-01-01T10:00:00Z", triggerFormat="run-%Y%m%d", timezone="Asia/Tokyo"
    )
    assert schedules.runner.cloud.tick(at("2026-01-01 10:00"))["fired"] == 1
    assert schedules.job("2026-01-01 10:00").trigger == "run-20260101"
    assert schedules.next() is None


def test_concurrent_ticks_fire_each_time_once(schedules: ScheduleClock) -> None:
    schedules.save("2026-01-01 00:00", everySeconds=600, catchUp="all")
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(schedules.tick, ["2026-01-01 01:00"] * 8))
    assert sum(result["fired"] for result in results) == 6
    assert schedules.jobs() == [f"2026-01-01 00:{minute}" for minute in range(10, 60, 10)] + [
        "2026-01-01 01:00"
    ]
    assert [outcome for _, outcome in schedules.outcomes()] == ["started"] * 6


@pytest.mark.parametrize(
    ("rules", "outcomes"),
    [
        ({"catchUp": "none"}, [("2026-01-01 06:00 to 2026-01-02 00:00", "missed")]),
        (
            {"catchUp": "latest"},
            [
                ("2026-01-01 06:00 to 2026-01-01 18:00", "missed"),
                ("2026-01-02 00:00", "started"),
            ],
        ),
        (
            {"catchUp": "all"},
            [
                ("2026-01-01 06:00", "started"),
                ("2026-01-01 12:00", "started"),
                ("2026-01-01 18:00", "started"),
                ("2026-01-02 00:00", "started"),
            ],
        ),
        (
            {"catchUp": "all", "maxLatenessSeconds": 12 * 3600},
            [
                ("2026-01-01 06:00 to 2026-01-01 12:00", "late"),
                ("2026-01-01 18:00", "started"),
                ("2026-01-02 00:00", "started"),
            ],
        ),
        (
            {"catchUp": "latest", "maxLatenessSeconds": 3600},
            [("2026-01-01 06:00 to 2026-01-02 00:00", "late")],
        ),
    ],
    ids=str,
)
@pytest.mark.parametrize("how", ["downtime", "pause"])
def test_missed_times_follow_the_catch_up_setting(
    schedules: ScheduleClock, rules: dict[str, Any], outcomes: list[tuple[str, str]], how: str
) -> None:
    schedule = {"cron": "0 */6 * * *", **rules}
    schedules.save("2026-01-01 00:00", **schedule)
    if how == "pause":
        schedules.save("2026-01-01 00:10", **schedule, status=0)
        assert schedules.tick("2026-01-01 18:00")["due"] == 0
        schedules.save("2026-01-02 02:59", **schedule)
    schedules.tick("2026-01-02 03:00")
    assert schedules.outcomes() == outcomes
    assert schedules.next() == "2026-01-02 06:00"
    assert schedules.tick("2026-01-02 03:01")["fired"] == 0


def test_zero_means_no_date(schedules: ScheduleClock) -> None:
    schedules.save("2026-01-01 00:00", cron="0 6 * * *", startDate=0, endDate=0)
    assert schedules.next() == "2026-01-01 06:00"
    saved = schedules.runner.cloud.http("GET", "/v1/schedules/orders/s").json
    assert (saved["startDate"], saved["endDate"]) == (None, None)


def test_a_time_up_to_two_minutes_old_is_not_missed(schedules: ScheduleClock) -> None:
    schedules.save("2026-01-01 00:00", everySeconds=30, catchUp="none")
    schedules.tick("2026-01-01 00:04")
    assert schedules.outcomes() == [
        ("2026-01-01 00:00:30 to 2026-01-01 00:01:30", "missed"),
        *((f"2026-01-01 00:{time}", "started") for time in ("02", "02:30", "03", "03:30", "04")),
    ]


def test_a_clock_that_jumps_back_fires_no_time_twice(schedules: ScheduleClock) -> None:
    schedules.save("2026-01-01 00:00", cron="0 * * * *", catchUp="all")
    for now in ("2026-01-01 03:00", "2026-01-01 01:00", "2026-01-01 02:30", "2026-01-01 03:00"):
        schedules.tick(now)
    assert schedules.jobs() == ["2026-01-01 01:00", "2026-01-01 02:00", "2026-01-01 03:00"]
    assert [outcome for _, outcome in schedules.outcomes()] == ["started"] * 3


def test_a_long_backlog_is_processed_by_several_ticks(schedules: ScheduleClock) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fire, "MAX_TIMES_PER_VISIT", 4)
        schedules.save("2026-01-01 00:00", cron="0 * * * *", catchUp="all")
        fired = [schedules.tick("2026-01-01 10:00")["fired"] for _ in range(4)]
    assert fired == [4, 4, 2, 0]


def test_saving_a_schedule_resets_its_next_time_only_if_its_times_change(
    schedules: ScheduleClock,
) -> None:
    schedules.save("2026-01-01 00:00", cron="0 6 * * *", catchUp="all")
    schedules.save("2026-01-01 12:00", cron="0 6 * * *", catchUp="all", params={"x": 2})
    assert schedules.next() == "2026-01-01 06:00"
    schedules.save("2026-01-01 12:00", cron="0 7 * * *", catchUp="all")
    assert schedules.next() == "2026-01-02 07:00"


def test_overlap_allow_runs_jobs_concurrently(schedules: ScheduleClock) -> None:
    schedules.save("2026-01-01 00:00", cron="0 * * * *", overlap="allow")
    schedules.tick("2026-01-01 01:00")
    schedules.tick("2026-01-01 02:00")
    assert [schedules.end(f"2026-01-01 0{hour}:00")["state"] for hour in (1, 2)] == ["SUCCESS", "SUCCESS"]


def test_a_skipped_overlap_is_recorded_and_published(schedules: ScheduleClock) -> None:
    schedules.save("2026-01-01 00:00", cron="0 * * * *", overlap="skip")
    schedules.tick("2026-01-01 01:00")
    schedules.runner.cloud.published()
    schedules.tick("2026-01-01 02:00")
    schedules.end("2026-01-01 01:00")
    schedules.tick("2026-01-01 03:00")
    assert [outcome for _, outcome in schedules.outcomes()] == ["started", "skipped", "started"]
    assert "20260101T010000Z-s" in schedules.history()[1]["reason"]
    [event] = [e for e in schedules.runner.cloud.published() if e["detail-type"] == "Schedule Skipped"]
    assert (event["detail"]["time"], event["detail"]["outcome"]) == ("2026-01-01T02:00:00+00:00", "skipped")


def test_overlap_queue_starts_each_job_after_the_previous_one_ends(schedules: ScheduleClock) -> None:
    schedules.save("2026-01-01 00:00", cron="0 * * * *", overlap="queue")
    for hour in (1, 2, 3):
        schedules.tick(f"2026-01-01 0{hour}:00")
    schedules.runner.cloud.run_until(
        lambda: (
            [schedules.state(f"2026-01-01 0{hour}:00") for hour in (1, 2, 3)]
            == ["QUEUED", "WAITING", "WAITING"]
        )
    )
    waiting = schedules.runner.job(schedules.job("2026-01-01 02:00").trigger)
    assert waiting["waitingFor"] == ["waits for the previous Job of the schedule s to end"]
    schedules.end("2026-01-01 01:00")
    assert schedules.state("2026-01-01 03:00") == "WAITING"
    schedules.end("2026-01-01 02:00")
    assert schedules.end("2026-01-01 03:00")["state"] == "SUCCESS"


def test_overlap_queue_respects_the_concurrency_limit(runner: JobRunner) -> None:
    runner.define({"stepName": "a"}, concurrency=1)
    schedules = ScheduleClock(runner)
    schedules.save("2026-01-01 00:00", schedule_id="x", cron="0 * * * *", overlap="queue")
    schedules.save("2026-01-01 00:30", schedule_id="y", cron="5 * * * *", overlap="queue")
    times = ["2026-01-01 01:00", "2026-01-01 01:05", "2026-01-01 02:00", "2026-01-01 02:05"]
    for time in times:
        schedules.tick(time)

    def running() -> list[str]:
        return [time for time in times if schedules.state(time) in ("QUEUED", "RUNNING")]

    ended: list[str] = []
    while len(ended) < len(times):
        [time] = runner.cloud.run_until(running)
        assert schedules.end(time)["state"] == "SUCCESS"
        ended.append(time)
    assert sorted(ended) == times
    for first, second in ((0, 2), (1, 3)):  # of one schedule; the slot goes to any that waits for it
        assert ended.index(times[first]) < ended.index(times[second])


def test_overlap_replace_kills_the_previous_job(schedules: ScheduleClock) -> None:
    schedules.save("2026-01-01 00:00", cron="0 * * * *", overlap="replace")
    schedules.tick("2026-01-01 01:00")
    [held] = schedules.runner.take(1)
    schedules.tick("2026-01-01 02:00")
    trigger = schedules.job("2026-01-01 01:00").trigger
    schedules.runner.cloud.run_until(lambda: schedules.runner.states(trigger) == {"a": "KILLED"})
    old = schedules.runner.job(trigger)
    assert (old["steps"][0]["state"], old["steps"][0]["counts"]) == ("KILLED", {"KILLED": 1})
    assert old["notes"] == "killed by planner: replaced by orders/20260101T020000Z-s"
    schedules.runner.cloud.run_until(
        lambda: not [e for e in schedules.runner.cloud.executions(status="RUNNING") if old["id"] in e["name"]]
    )
    assert schedules.runner.worker.beat([held]) == [held.task_id]
    assert [each.status for each in schedules.runner.worker.report([held])] == ["stale-attempt"]
    assert schedules.end("2026-01-01 02:00")["state"] == "SUCCESS"
    assert schedules.runner.job(old["trigger"])["steps"][0]["counts"] == {"KILLED": 1}


def test_an_existing_trigger_is_recorded_and_the_schedule_continues(schedules: ScheduleClock) -> None:
    schedules.save("2026-01-01 00:00", cron="0 * * * *", triggerFormat="%Y%m%d")
    schedules.runner.submit("20260101")
    schedules.tick("2026-01-01 01:00")
    schedules.tick("2026-01-02 00:00")
    assert [outcome for _, outcome in schedules.outcomes()][::2] == ["exists", "started"]
    assert schedules.next() == "2026-01-02 01:00"


def test_a_job_that_cannot_run_is_recorded_as_refused(schedules: ScheduleClock) -> None:
    schedules.runner.define({"stepName": "a", "workerGroup": "nowhere"})
    schedules.save("2026-01-01 00:00", cron="0 * * * *")
    schedules.tick("2026-01-01 01:00")
    [entry] = schedules.history()
    assert entry["outcome"] == "refused"
    assert "nowhere" in entry["reason"]
    assert schedules.next() == "2026-01-01 02:00"


def test_schedules_beyond_the_first_chunk_are_fired_through_the_queue(runner: JobRunner) -> None:
    """The tick fires the first chunk itself and queues the other chunks."""
    runner.define({"stepName": "a"})
    schedules = ScheduleClock(runner)
    for number in range(23):
        schedules.save("2026-01-01 00:00", schedule_id=f"s{number:02d}", cron="0 1 * * *")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(due, "CHUNK", 5)
        assert schedules.tick("2026-01-01 01:00") == {
            "due": 23,
            "handed": 18,
            "fired": 5,
            "notFired": 0,
            "lag": 0,
            "late": 0,
            "looked": 0,
            "passedOn": 0,
            "failed": 0,
        }
        assert runner.cloud.serve_fire_queue() == 4
    assert schedules.jobs() == ["2026-01-01 01:00"] * 23
    assert schedules.tick("2026-01-01 01:01")["due"] == 0


@pytest.mark.parametrize(
    ("document", "code", "pointer"),
    [
        ({"cron": "* * * *"}, "bad-cron", "/cron"),
        ({"cron": "0 0 * * * *"}, "bad-cron", "/cron"),
        ({"cron": "0 0 ? * *"}, "bad-cron", "/cron"),
        ({"cron": "0 0 31 2 *"}, "impossible-date", "/cron"),
        ({"cron": "59/15 * * * *"}, "ambiguous-cron", "/cron"),
        ({"cron": "0 0 * * *", "timezone": "Mars/Olympus"}, "bad-timezone", "/timezone"),
        ({"cron": "0 0 * * *", "startDate": 20260201, "endDate": "2026-01-01"}, "end-before-start", ""),
        ({"cron": "0 0 * * *", "everySeconds": 5}, "one-kind-of-time", ""),
        ({}, "one-kind-of-time", ""),
        ({"cron": "0 0 * * *", "startDate": 20260231}, "bad-date", "/startDate"),
        ({"cron": "0 0 * * *", "triggerFormat": "%Y/%m"}, "bad-trigger-format", "/triggerFormat"),
        ({"cron": "0 0 * * *", "overlapp": "skip"}, "unknown-field", "/overlapp"),
        ({"cron": "0 0 * * *", "scheduleId": "other"}, "bad-name", "/scheduleId"),
        ({"everySeconds": 0}, "out-of-range", "/everySeconds"),
        ({"everyMonths": 1}, "no-start", ""),
        ({"delaySeconds": 5, "everySeconds": 5}, "one-kind-of-time", ""),
        ({"delaySeconds": 5, "overlap": "skip"}, "bad-value", ""),
        ({"delaySeconds": 5, "catchUp": "all"}, "bad-value", ""),
        ({"delaySeconds": 5, "maxLatenessSeconds": 600}, "bad-value", ""),
        ({"everyMonths": 1, "at": "2026-01-01T00:00:00Z", "startDate": 20260101}, "one-kind-of-time", ""),
        ({"cron": "@daily", "times": ["2026-01-01T00:00:00Z"]}, "one-kind-of-time", ""),
        ({"cron": "@daily", "maxTimes": 3}, "no-start", ""),
        ({"times": ["2026-01-01T00:00:00Z"], "maxTimes": 3, "startDate": 20260101}, "bad-value", ""),
        ({"everySeconds": 5, "startDate": "2026-01-01T25:00:00Z"}, "bad-date", "/startDate"),
        (
            {"everySeconds": 5, "startDate": "2026-01-02T00:00:01Z", "endDate": "2026-01-02T00:00:00Z"},
            "end-before-start",
            "",
        ),
        ({"cron": "@daily", "params": {"a": {"b": ["{{ job.id }}"]}}}, "bad-template", "/params/a/b/0"),
        ({"cron": "@daily", "params": {"a": "{{ shard.index }}"}}, "bad-template", "/params/a"),
        ({"cron": "@daily", "params": {"a": "{{ job.dataTime"}}, "bad-template", "/params/a"),
        (
            {"cron": "@daily", "steps": [{"stepName": "a", "params": {"x": "{{ params.n }}"}}]},
            "bad-template",
            "/steps/0/params/x",
        ),
        (
            {"cron": "@daily", "steps": [{"stepName": "b", "sharding": 2}]},
            "unknown-step",
            "/steps/0/stepName",
        ),
        (
            {"cron": "@daily", "steps": [{"stepName": "a", "sharding": 0}]},
            "out-of-range",
            "/steps/0/sharding",
        ),
        ({"cron": "@daily", "priority": "high"}, "bad-type", "/priority"),
    ],
    ids=str,
)
def test_invalid_schedules_are_rejected_with_a_specific_code(
    schedules: ScheduleClock, document: dict[str, Any], code: str, pointer: str
) -> None:
    response = schedules.runner.cloud.http("PUT", "/v1/schedules/orders/s", document)
    assert (response.status, response.json["code"]) == (422, code), response
    assert [fault["pointer"] for fault in response.json["faults"]] == [pointer]
    assert schedules.runner.cloud.http("GET", "/v1/schedules/orders/s").status == 404


def test_schedules_are_saved_read_listed_disabled_and_deleted(schedules: ScheduleClock) -> None:
    http = schedules.runner.cloud.http
    created = http("PUT", "/v1/schedules/orders/nightly", {"cron": "@daily", "timezone": "Europe/Berlin"})
    assert (created.status, created.headers["etag"], created.json["version"]) == (201, '"v1"', 1)
    assert (created.json["status"], created.json["updateUser"]) == (1, "admin")
    updated = http("PUT", "/v1/schedules/orders/nightly", created.json | {"status": 0})
    assert (updated.status, updated.json["status"], updated.json["nextTime"]) == (200, 0, None)
    stale = http("PUT", "/v1/schedules/orders/nightly", {"cron": "@daily"}, headers={"If-Match": '"v1"'})
    assert (stale.status, stale.json["code"]) == (412, "precondition-failed")
    other = http("PUT", "/v1/schedules/orders/nightly", {"cron": "@daily"}, headers={"If-None-Match": '"v1"'})
    assert (other.status, other.json["code"]) == (412, "precondition-failed")
    http("PUT", "/v1/schedules/orders/early", {"cron": "0 1 * * *"})
    assert [each["scheduleId"] for each in http("GET", "/v1/schedules").json["items"]] == ["early", "nightly"]
    first = http("GET", "/v1/schedules?limit=1").json
    rest = http("GET", f"/v1/schedules?limit=1&cursor={first['cursor']}").json
    assert [first["items"][0]["scheduleId"], rest["items"][0]["scheduleId"]] == ["early", "nightly"]
    assert [each["scheduleId"] for each in http("GET", "/v1/schedules/orders").json["items"]] == [
        "early",
        "nightly",
    ]
    rejected = http("DELETE", "/v1/definitions/orders")
    assert (rejected.status, rejected.json["code"]) == (409, "definition-in-use")
    assert "early, nightly" in rejected.json["detail"]
    assert http("DELETE", "/v1/schedules/orders/nightly").status == 204
    assert http("GET", "/v1/schedules/orders/nightly").json["code"] == "schedule-not-found"
    assert http("PUT", "/v1/schedules/nothing/s", {"cron": "@daily"}).json["code"] == "definition-not-found"


@pytest.mark.parametrize(
    ("document", "times", "meaning"),
    [
        ({"cron": "cron(0 18 ? * MON-FRI *)"}, ["01T18:00", "02T18:00"], "at 18:00 on Monday to Friday"),
        ({"cron": "rate(12 hours)"}, ["01T12:00", "02T00:00"], "every 12 hours"),
        ({"cron": "at(2026-01-01T18:00:00)"}, ["01T18:00"], "once, at 2026-01-01 18:00:00"),
        ({"cron": "quartz(30 0 0 2W * ?)"}, ["02T00:00"], None),
    ],
)
def test_expressions_of_other_schedulers_fire_and_are_explained(
    schedules: ScheduleClock, document: dict[str, Any], times: list[str], meaning: str | None
) -> None:
    schedules.save("2026-01-01 00:00", catchUp="all", **document)
    url = f"/v1/schedules/orders/s/next?count={len(times)}&from=2026-01-01T00:00:00Z"
    answer = schedules.runner.cloud.http("GET", url).json
    assert [each["utc"][8:16] for each in answer["items"]] == times
    read = schedules.runner.cloud.http("GET", "/v1/schedules/orders/s").json
    assert answer["meaning"] == read["meaning"]
    assert meaning in (None, read["meaning"])
    assert schedules.runner.cloud.http("PUT", "/v1/schedules/orders/s", read).status == 200
    schedules.tick("2026-01-03 00:00")
    assert schedules.jobs()[0].startswith(f"2026-01-{times[0].replace('T', ' ')}")


@pytest.mark.parametrize(
    ("document", "times"),
    [
        ({"everySeconds": 1800, "startDate": "2026-01-01T00:10:00Z"}, ["00:10", "00:40", "01:10", "01:40"]),
        ({"everySeconds": 1800, "startDate": "2026-01-01T00:10:00Z", "maxTimes": 2}, ["00:10", "00:40"]),
        ({"cron": "0 * * * *", "endDate": "2026-01-01T01:00:00Z"}, ["01:00"]),
        ({"everyMonths": 1, "startDate": "2026-01-01T00:30:00Z"}, ["00:30"]),
        ({"times": ["2026-01-01T01:30:00Z", "2026-01-01T00:05:00Z"]}, ["00:05", "01:30"]),
    ],
)
def test_starts_ends_numbers_and_lists_determine_the_times(
    schedules: ScheduleClock, document: dict[str, Any], times: list[str]
) -> None:
    schedules.save("2026-01-01 00:00", catchUp="all", **document)
    read = schedules.runner.cloud.http("GET", "/v1/schedules/orders/s").json
    assert schedules.runner.cloud.http("PUT", "/v1/schedules/orders/s", read).status == 200
    schedules.tick("2026-01-01 01:59")
    assert schedules.outcomes() == [(f"2026-01-01 {time}", "started") for time in times]
    assert schedules.next() == ("2026-02-01 00:30" if "everyMonths" in document else schedules.next())
    if "maxTimes" in document or "times" in document or "endDate" in document:
        assert schedules.next() is None


def test_a_backfill_covers_months_and_lists(schedules: ScheduleClock) -> None:
    http = schedules.runner.cloud.http
    schedules.save("2026-06-01 00:00", schedule_id="monthly", everyMonths=1, startDate="2026-01-31")
    listed = ["2026-02-03T00:00:00Z", "2026-03-03T00:00:00Z"]
    schedules.save("2026-06-01 00:00", schedule_id="listed", times=listed)
    span = {"from": "2026-01-01", "to": "2026-04-01", "parallel": 5}
    assert http("POST", "/v1/schedules/orders/monthly:backfill", span).json["total"] == 3
    assert http("POST", "/v1/schedules/orders/listed:backfill", span).json["total"] == 2
    assert schedules.jobs() == [f"2026-{day} 00:00" for day in ("01-31", "02-03", "02-28", "03-03", "03-31")]


def test_steps_priority_and_templates_of_a_schedule_reach_its_jobs(schedules: ScheduleClock) -> None:
    schedules.save(
        "2026-01-01 00:00",
        cron="0 * * * *",
        params={"day": "{{ job.dataTime }}", "all": ["{{ job.name }}/{{ job.trigger }}", 5]},
        steps=[
            {
                "stepName": "a",
                "sharding": "{{ params.all[1] }}",
                "params": {"x": 1, "y": "{{ job.dataTime }}"},
            }
        ],
        priority=7,
    )
    schedules.tick("2026-01-01 01:00")
    job = schedules.job("2026-01-01 01:00")
    trigger = "20260101T010000Z-s"
    assert job.params == {"day": "2026-01-01T01:00:00Z", "all": [f"orders/{trigger}", 5]}
    schedules.runner.cloud.run_until(lambda: schedules.runner.job(trigger)["steps"])
    read = schedules.runner.job(trigger)
    assert read["priority"] == 7
    step = schedules.runner.cloud.http("GET", f"/v1/jobs/orders/{trigger}/steps/a").json
    assert len(step["taskStates"]) == 5
    assert (step["params"]["x"], step["params"]["y"]) == (1, "2026-01-01T01:00:00Z")
    body = {"dataTime": "2026-05-05T00:00:00Z", "params": {"more": "{{ as it is }}"}}
    fired = schedules.runner.cloud.http("POST", "/v1/schedules/orders/s:fire", body).json
    assert (fired["params"]["day"], fired["params"]["more"]) == ("2026-05-05T00:00:00Z", "{{ as it is }}")


def test_a_setting_that_no_longer_fits_the_definition_is_refused(schedules: ScheduleClock) -> None:
    schedules.save("2026-01-01 00:00", cron="0 * * * *", steps=[{"stepName": "a", "sharding": 3}])
    schedules.runner.define({"stepName": "other"})
    schedules.tick("2026-01-01 01:00")
    [entry] = schedules.history()
    assert entry["outcome"] == "refused"
    assert schedules.next() == "2026-01-01 02:00"


def test_upcoming_times_are_listed_in_utc_and_local_time(schedules: ScheduleClock) -> None:
    schedules.save("2026-01-01 00:00", cron="30 2 * * *", timezone="Europe/Berlin", status=0)
    response = schedules.runner.cloud.http(
        "GET", "/v1/schedules/orders/s/next?count=3&from=2026-03-28T00:00:00Z"
    )
    assert response.json["items"] == [
        {"utc": "2026-03-28T01:30:00.000Z", "local": "2026-03-28T02:30:00+01:00"},
        {"utc": "2026-03-29T01:00:00.000Z", "local": "2026-03-29T03:00:00+02:00"},
        {"utc": "2026-03-30T00:30:00.000Z", "local": "2026-03-30T02:30:00+02:00"},
    ]
    assert schedules.runner.cloud.http("GET", "/v1/schedules/orders/s/next?count=0").status == 422


def test_a_manual_fire_starts_a_job_unless_it_overlaps(schedules: ScheduleClock) -> None:
    schedules.save("2026-01-01 00:00", cron="0 0 1 1 *", overlap="skip", params={"x": 1, "y": 1})
    http = schedules.runner.cloud.http
    body = {"dataTime": "2026-05-05T00:00:00Z", "params": {"y": 2}}
    fired = http("POST", "/v1/schedules/orders/s:fire", body)
    assert (fired.status, fired.json["params"], fired.json["submitUser"]) == (202, {"x": 1, "y": 2}, "admin")
    assert http("POST", "/v1/schedules/orders/s:fire", body).status == 200
    blocked = http("POST", "/v1/schedules/orders/s:fire")
    assert (blocked.status, blocked.json["code"]) == (409, "overlap")
    assert schedules.outcomes() == [("2026-05-05 00:00", "started")]
    assert schedules.next() == "2027-01-01 00:00"
    schedules.end("2026-05-05 00:00")
    assert http("POST", "/v1/schedules/orders/s:fire").status == 202


ME = Actor("me")


A = {"stepName": "a"}


def define(schedules: ScheduleClock, name: str, *parents: Any, **job: Any) -> None:
    schedules.runner.define(A, name=name, dependencies=list(parents), **job)


def test_a_stale_update_does_not_change_a_recreated_schedule(schedules: ScheduleClock) -> None:
    define(schedules, "orders")
    schedules.save("2026-01-01 00:00", cron="0 1 * * *")
    old = schedules.mill.schedules.get("orders", "s")
    assert old is not None
    manage.delete(schedules.mill, "orders", "s", ms("2026-01-01 00:10"))
    assert schedules.runner.cloud.http("GET", "/v1/schedules/orders/s").status == 404
    assert schedules.runner.cloud.http("GET", "/v1/schedules").json["items"] == []
    schedules.save("2026-01-01 00:20", cron="30 5 * * *")
    assert not schedules.mill.schedules.change(old, old)
    with pytest.raises(PreconditionFailed):
        manage.save(schedules.mill, "orders", "s", {"cron": "@daily"}, ME, now=0, expected=1)
    assert schedules.next() == "2026-01-01 05:30"


def test_a_due_time_fires_after_the_schedule_is_changed(schedules: ScheduleClock) -> None:
    define(schedules, "orders")
    schedules.save("2026-01-01 00:00", cron="0 1 * * *", endDate="2026-02-01")
    schedules.save("2026-01-01 01:00:20", cron="0 1 * * *", endDate="2026-03-01")
    schedules.tick("2026-01-01 01:00:40")
    assert schedules.outcomes() == [("2026-01-01 01:00", "started")]


def test_the_tick_fires_schedules_while_the_queue_is_unavailable(schedules: ScheduleClock) -> None:
    define(schedules, "orders")
    for number in range(3):
        schedules.save("2026-01-01 00:00", schedule_id=f"s{number}", cron="0 1 * * *")
    with pytest.MonkeyPatch.context() as patch, Faults() as faults:
        patch.setattr(due, "CHUNK", 1)
        faults.fail("sqs", "SendMessageBatch", how="before", times=9)
        result = schedules.tick("2026-01-01 01:00")
        assert (len(schedules.jobs()), result["failed"]) == (1, 1)
        faults.clear_faults()
        for minute in (1, 2):
            schedules.tick(f"2026-01-01 01:0{minute}")
            schedules.runner.cloud.serve_fire_queue()
    assert len(schedules.jobs()) == 3


def test_large_schedules_are_rejected_and_histories_are_truncated(schedules: ScheduleClock) -> None:
    define(schedules, "orders")
    large = {"cron": "* * * * *", "params": {"x": "y" * 70_000}}
    response = schedules.runner.cloud.http("PUT", "/v1/schedules/orders/s", large)
    assert (response.status, response.json["code"]) == (413, "schedule-too-large")
    schedules.runner.define({"stepName": "a", "workerGroup": "w" * 60})
    schedules.save("2026-01-01 00:00", cron="* * * * *", catchUp="all")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fire, "MAX_HISTORY_BYTES", 2_000)
        schedules.tick("2026-01-01 00:20")
    assert 1 < len(schedules.history()) < 20


def test_shortened_triggers_stay_distinct(schedules: ScheduleClock) -> None:
    define(schedules, "orders")
    for end in ("x", "y"):
        schedules.save("2026-01-01 00:00", schedule_id="n" * 60 + end, cron="0 1 * * *")
    schedules.tick("2026-01-01 01:00")
    assert schedules.jobs() == ["2026-01-01 01:00"] * 2


@pytest.mark.parametrize("form", ["%Y%m%e", "%k", "%Y%m%d%z", "%Y-%Z", "%H:%M"])
def test_formats_that_yield_invalid_triggers_are_rejected(schedules: ScheduleClock, form: str) -> None:
    define(schedules, "orders")
    body = {"cron": "@daily", "triggerFormat": form, "timezone": "Asia/Dubai"}
    assert (
        schedules.runner.cloud.http("PUT", "/v1/schedules/orders/s", body).json["code"]
        == "bad-trigger-format"
    )


def test_a_definition_with_a_schedule_or_child_is_not_deleted(
    schedules: ScheduleClock, monkeypatch: Any
) -> None:
    define(schedules, "orders")
    define(schedules, "parent")
    check_unused = definitions._check_unused

    def check_then_save(mill: Any, name: str, visible: Visible) -> None:
        check_unused(mill, name, visible)
        if name == "orders":
            schedules.save("2026-01-01 00:00", cron="@daily")
        else:
            define(schedules, "child", "parent")

    monkeypatch.setattr(definitions, "_check_unused", check_then_save)
    for name in ("orders", "parent"):
        with pytest.raises(DefinitionInUse):
            definitions.delete(schedules.mill, name, Visible(schedules.mill, ME))
    monkeypatch.undo()
    manage.delete(schedules.mill, "orders", "s", ms("2026-01-01 00:00"))
    definitions.delete(schedules.mill, "orders", Visible(schedules.mill, ME))
    with pytest.raises(DefinitionNotFound):
        schedules.save("2026-01-01 00:00", cron="@daily")


def test_contention_returns_busy(schedules: ScheduleClock, monkeypatch: Any) -> None:
    from shardmill.store.table import Contended, Table

    define(schedules, "orders")

    def contended(*_: object, **__: object) -> None:
        raise Contended

    monkeypatch.setattr(Table, "transact", contended)
    response = schedules.runner.cloud.http("PUT", "/v1/schedules/orders/s", {"cron": "@daily"})
    assert (response.status, response.json["code"]) == (503, Busy.code)


def test_a_time_beyond_the_supported_calendar_is_rejected(schedules: ScheduleClock) -> None:
    define(schedules, "orders")
    schedules.save("2026-01-01 00:00", cron="@daily", timezone="Asia/Tokyo", triggerFormat="%Y%m%d")
    body = {"dataTime": "9999-12-31T23:59:59Z"}
    response = schedules.runner.cloud.http("POST", "/v1/schedules/orders/s:fire", body)
    assert (response.status, response.json["code"]) == (422, "bad-time")
