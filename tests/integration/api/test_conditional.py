"""Conditional requests: what a caller has is not sent again, and an ended job is recognised by one read."""

import pytest

from shardmill.api import jobs
from support.aws_rules.faults import Faults
from support.scenarios.job_runner import JobRunner

JOB = "/v1/jobs/orders/t1"


@pytest.fixture
def settled(runner: JobRunner, monkeypatch: pytest.MonkeyPatch) -> JobRunner:
    """A job that ended some time ago."""
    monkeypatch.setattr(jobs, "SETTLED_MS", -60_000)
    runner.define({"stepName": "a", "sharding": 3})
    runner.submit()
    runner.run()
    assert runner.job()["state"] == "SUCCESS"
    return runner


def test_an_answer_is_sent_again_only_if_it_changed(runner: JobRunner) -> None:
    first = runner.cloud.http("GET", "/v1/definitions")
    tag = {"if-none-match": first.headers["etag"]}
    again = runner.cloud.http("GET", "/v1/definitions", headers=tag)
    assert (again.status, again.text) == (304, "")
    runner.define({"stepName": "a"})
    assert runner.cloud.http("GET", "/v1/definitions", headers=tag).status == 200


def test_an_ended_job_that_the_caller_has_costs_one_small_read(settled: JobRunner, faults: Faults) -> None:
    tag = {"if-none-match": settled.cloud.http("GET", JOB).headers["etag"]}
    faults.meter.reset()
    assert settled.cloud.http("GET", JOB, headers=tag).status == 304
    assert dict(faults.meter.calls) == {"dynamodb.GetItem": 1}


def test_a_rerun_makes_the_known_version_old(settled: JobRunner) -> None:
    tag = {"if-none-match": settled.cloud.http("GET", JOB).headers["etag"]}
    settled.cloud.http("POST", f"{JOB}:rerun", {"scope": "all"})
    answer = settled.cloud.http("GET", JOB, headers=tag)
    assert (answer.status, answer.json["run"]) == (200, 2)


def test_the_version_of_another_job_does_not_match(settled: JobRunner) -> None:
    tag = {"if-none-match": settled.cloud.http("GET", JOB).headers["etag"]}
    settled.submit("t2")
    assert settled.cloud.http("GET", "/v1/jobs/orders/t2", headers=tag).status == 200
    settled.cloud.http("DELETE", JOB)
    assert settled.cloud.http("GET", JOB, headers=tag).status == 404


def test_a_live_job_is_compared_by_its_content(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "sharding": 3})
    runner.submit()
    runner.take(1)

    def known() -> dict[str, str]:
        tag = {"if-none-match": runner.cloud.http("GET", JOB).headers["etag"]}
        return tag if runner.cloud.http("GET", JOB, headers=tag).status == 304 else {}

    tag = runner.cloud.run_until(known)
    runner.take(1)
    assert runner.cloud.http("GET", JOB, headers=tag).status == 200


def test_the_dashboard_and_its_files_need_no_token(runner: JobRunner) -> None:
    page = runner.cloud.http("GET", "/", token=None)
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    file = page.text.partition('src="')[2].partition('"')[0]
    script = runner.cloud.http("GET", f"/{file}", token=None)
    assert (script.status, script.headers["content-type"]) == (200, "text/javascript; charset=utf-8")
    assert runner.cloud.http("GET", "/assets/other/core/main.js", token=None).status == 404


def test_the_version_of_a_definition_does_not_hide_that_it_is_suspended(runner: JobRunner) -> None:
    runner.define({"stepName": "a"})
    path = "/v1/definitions/orders"
    first = runner.cloud.http("GET", path)
    tag = {"if-none-match": first.headers["etag"]}
    runner.post(f"{path}:suspend")
    again = runner.cloud.http("GET", path, headers=tag)
    assert (again.status, again.headers["etag"]) == (200, first.headers["etag"])
    assert again.json["suspended"]


def test_the_version_of_a_schedule_does_not_hide_its_firings(runner: JobRunner) -> None:
    runner.define({"stepName": "a"})
    path = "/v1/schedules/orders/daily"
    runner.cloud.http("PUT", path, {"cron": "0 6 * * *"})
    tag = {"if-none-match": runner.cloud.http("GET", path).headers["etag"]}
    runner.post(f"{path}:fire", status=202)
    assert runner.cloud.http("GET", path, headers=tag).status == 200
