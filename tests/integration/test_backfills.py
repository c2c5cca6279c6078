"""Backfills: one Job for each past time, so many at once, until all have been."""

from typing import Any

import pytest

from shardmill.engine.schedules import backfill
from support.diary import Diary
from support.play import Play, fail_shards

RANGE = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-06T00:00:00Z"}


@pytest.fixture
def diary(play: Play) -> Diary:
    play.define({"stepName": "a"})
    diary = Diary(play)
    diary.save("2026-02-01 00:00", cron="0 3 * * *", params={"x": 1})
    return diary


def begin(diary: Diary, **request: Any) -> dict[str, Any]:
    answer = diary.play.cloud.http("POST", "/v1/schedules/play/s:backfill", {**RANGE, **request})
    assert answer.status == 202, answer
    assert answer.headers["location"] == f"/v1/schedules/play/s/backfills/{answer.json['number']}"
    begun: dict[str, Any] = answer.json
    return begun


def look(diary: Diary, number: int = 1) -> dict[str, Any]:
    shown: dict[str, Any] = diary.play.cloud.http("GET", f"/v1/schedules/play/s/backfills/{number}").json
    return shown


def work_off(diary: Diary, number: int = 1, judge: Any = fail_shards()) -> dict[str, Any]:
    most = look(diary, number)["parallel"]

    def go_on() -> None:
        assert look(diary, number)["running"] <= most
        diary.play.work(judge)
        diary.play.cloud.tell_dependency()

    diary.play.cloud.run_until(lambda: look(diary, number)["state"] == "DONE", 60, meanwhile=go_on)
    return look(diary, number)


def numbers(shown: dict[str, Any]) -> tuple[int, ...]:
    return tuple(shown[name] for name in ("total", "waiting", "running", "success", "failed", "skipped"))


def test_every_time_of_a_range_gets_its_job(diary: Diary) -> None:
    begun = begin(diary, parallel=2)
    assert (begun["state"], numbers(begun)) == ("RUNNING", (5, 3, 2, 0, 0, 0))
    assert numbers(work_off(diary)) == (5, 0, 0, 5, 0, 0)
    assert diary.jobs() == [f"2026-01-0{day} 03:00" for day in range(1, 6)]
    job = diary.play.job("20260101T030000Z-s")
    assert (job["params"], job["scheduleId"]) == ({"x": 1}, "s")
    assert diary.next() == "2026-02-01 03:00"


def test_newest_first_and_those_that_succeeded_are_left_out(diary: Diary) -> None:
    diary.play.submit("20260103T030000Z-s", dataTime="2026-01-03T03:00:00Z")
    diary.play.run(trigger="20260103T030000Z-s")
    begin(diary, order="desc")
    assert diary.state("2026-01-05 03:00") in ("INIT", "QUEUED")
    assert numbers(work_off(diary)) == (5, 0, 0, 4, 0, 1)


def test_with_force_they_run_again_under_another_trigger(diary: Diary) -> None:
    begin(diary)
    work_off(diary)
    begin(diary, force=True, to="2026-01-03T00:00:00Z")
    assert numbers(work_off(diary, 2)) == (2, 0, 0, 2, 0, 0)
    assert diary.play.job("20260101T030000Z-s-b2")["state"] == "SUCCESS"


def test_those_that_failed_run_again(diary: Diary) -> None:
    begin(diary, to="2026-01-03T00:00:00Z")
    shown = work_off(diary, judge=fail_shards(0))
    assert numbers(shown) == (2, 0, 0, 0, 2, 0)
    assert shown["notes"] == "the last that failed: 20260102T030000Z-s (FAILED)"
    begin(diary, to="2026-01-03T00:00:00Z")
    assert numbers(work_off(diary, 2)) == (2, 0, 0, 2, 0, 0)


def test_it_can_be_stopped(diary: Diary) -> None:
    begin(diary)
    stopped = diary.play.cloud.http("POST", "/v1/schedules/play/s/backfills/1:stop").json
    assert (stopped["state"], stopped["notes"], stopped["waiting"]) == ("STOPPED", "stopped by admin", 0)
    diary.end("2026-01-01 03:00")
    diary.play.cloud.tell_dependency()
    assert numbers(look(diary)) == (5, 0, 0, 1, 0, 0)
    assert diary.jobs() == ["2026-01-01 03:00"]


def test_separate_dates_and_times(diary: Diary) -> None:
    wish = {"times": ["2026-01-01", "20260103", "2026-01-05T03:00:00Z"], "parallel": 3}
    answer = diary.play.cloud.http("POST", "/v1/schedules/play/s:backfill", wish)
    assert answer.json["total"] == 3
    work_off(diary)
    assert diary.jobs() == ["2026-01-01 03:00", "2026-01-03 03:00", "2026-01-05 03:00"]


def test_the_tick_goes_on_with_one_that_nobody_moves(diary: Diary) -> None:
    begin(diary, to="2026-01-03T00:00:00Z")
    diary.end("2026-01-01 03:00")
    diary.play.cloud.published()  # and nobody is told
    diary.play.tick(minutes=2)
    assert numbers(look(diary)) == (2, 0, 1, 1, 0, 0)


def test_two_that_go_on_at_once_start_nothing_twice(diary: Diary) -> None:
    from concurrent.futures import ThreadPoolExecutor

    from shardmill.aws.clock import new_id

    begin(diary, parallel=2)
    for day in (1, 2):
        diary.end(f"2026-01-0{day} 03:00")
    now = diary.play.hands.clock()
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda _: backfill.advance(diary.mill, ("play", "s", 1), now, new_id), range(6)))
    assert numbers(look(diary)) == (5, 1, 2, 2, 0, 0)
    assert diary.jobs() == [f"2026-01-0{day} 03:00" for day in range(1, 5)]


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ({"from": "2026-01-01T00:00:00Z"}, "open-range"),
        ({}, "range-or-times"),
        ({**RANGE, "times": ["2026-01-01"]}, "range-or-times"),
        ({"from": RANGE["to"], "to": RANGE["from"]}, "end-before-start"),
        ({"from": "2126-01-01", "to": "2126-01-02"}, "future-time"),
        ({"from": "then", "to": "now"}, "bad-time"),
        ({"from": "1990-01-01T00:00:00Z", "to": "2026-01-01T00:00:00Z"}, "too-many-times"),
        ({"from": "2026-01-01T04:00:00Z", "to": "2026-01-01T05:00:00Z"}, "no-times"),
        ({"times": ["2026-01-01T04:00:00Z"]}, "no-times"),
        ({"times": ["yesterday"]}, "bad-time"),
        ({**RANGE, "parallel": 0}, "out-of-range"),
        ({**RANGE, "order": "random"}, "bad-value"),
    ],
    ids=str,
)
def test_bad_backfills_are_refused(diary: Diary, request_: dict[str, Any], code: str) -> None:
    answer = diary.play.cloud.http("POST", "/v1/schedules/play/s:backfill", request_)
    assert (answer.status, {each["code"] for each in answer.json["faults"]}) == (422, {code})
    assert diary.play.cloud.http("GET", "/v1/schedules/play/s/backfills").json["items"] == []


def test_an_unknown_backfill(diary: Diary) -> None:
    assert (
        diary.play.cloud.http("GET", "/v1/schedules/play/s/backfills/7").json["code"] == "backfill-not-found"
    )
