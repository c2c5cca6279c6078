"""The messages of the worker protocol, and schedules."""

from __future__ import annotations

import subprocess
import sys
from datetime import date
from typing import Any

import pytest
from pydantic import ValidationError

from shardmill.model.groups.group import GroupRequest
from shardmill.model.time.schedule import Schedule
from shardmill.model.worker import Heartbeat, Lease, LeaseRequest, Registration, ReportRequest, WorkerStatus


def test_a_registration_requires_a_name_and_a_group() -> None:
    worker = Registration.model_validate({"name": "w", "groups": ["default"], "instanceId": "i-1"})
    assert (worker.apps, worker.slots, worker.instance_id) == (["*"], 1, "i-1")
    for wrong in (
        {},
        {"name": "", "groups": ["a"]},
        {"name": "w", "groups": []},
        {"name": "w", "groups": ["-"]},
    ):
        with pytest.raises(ValidationError):
            Registration.model_validate(wrong)


@pytest.mark.parametrize(
    "wrong", [{"max": -1}, {"max": 101}, {"waitSeconds": 21}, {"waitSeconds": -1}, {"wait": 1}]
)
def test_a_lease_is_limited_to_100_tasks_and_20_seconds(wrong: dict[str, Any]) -> None:
    LeaseRequest.model_validate({"workerId": "w", "max": 100, "waitSeconds": 20})
    with pytest.raises(ValidationError):
        LeaseRequest.model_validate({"workerId": "w", **wrong})


def test_a_lease_does_not_show_its_environment_in_logs() -> None:
    lease = Lease.model_validate(
        {
            "taskId": "i_0_0",
            "attempt": 1,
            "receipt": "r",
            "jobName": "j",
            "trigger": "t",
            "jobId": "i",
            "run": 1,
            "stepName": "s",
            "sharding": {"index": 0, "total": 1},
            "type": "shell",
            "content": "ls",
            "environ": {"KEY": "s3cret"},
            "leaseSeconds": 60,
        }
    )
    assert "s3cret" not in repr(lease)
    assert lease.model_dump(mode="json")["environ"] == {"KEY": "s3cret"}


def test_a_report_has_one_to_100_results() -> None:
    result = {"taskId": "i_0_0", "attempt": 1, "outcome": "failed-permanent", "exitCode": 42}
    assert len(ReportRequest.model_validate({"workerId": "w", "results": [result] * 100}).results) == 100
    for wrong in ([], [result] * 101, [{**result, "outcome": "lost"}], [{**result, "attempt": -1}]):
        with pytest.raises(ValidationError):
            ReportRequest.model_validate({"workerId": "w", "results": wrong})


def test_heartbeats_and_groups_are_parsed() -> None:
    beat = Heartbeat.model_validate({"session": 2, "work": [{"taskId": "i_0_0", "attempt": 1}]})
    assert beat.work[0].task_id == "i_0_0"
    assert GroupRequest().kind is None
    assert [int(status) for status in WorkerStatus] == [0, 1, 2, 3]


def a_schedule(**fields: Any) -> Schedule:
    return Schedule.model_validate({"scheduleId": "nightly", "jobName": "j", **fields})


def test_a_schedule_accepts_the_dates_of_seed_001() -> None:
    schedule = a_schedule(
        cron="0 2 * * *", startDate=20200121, endDate="2020-02-21", timezone="Europe/Berlin"
    )
    assert (schedule.start_date, schedule.end_date) == (date(2020, 1, 21), date(2020, 2, 21))
    assert schedule.model_dump(mode="json")["startDate"] == "2020-01-21"
    assert a_schedule(startDate="20200121", at="2020-01-21T00:00:00Z").start_date == date(2020, 1, 21)


@pytest.mark.parametrize("cron", ["@daily", "*/5 * * * *", "0 0 29 2 *", "0 9-17/2 * * mon-fri", "0 0 L * *"])
def test_cron_expressions_that_fire_are_accepted(cron: str) -> None:
    assert a_schedule(cron=cron).cron == cron


@pytest.mark.parametrize(
    "fields",
    [
        {"cron": "0 0 31 2 *"},
        {"cron": "61 * * * *"},
        {"cron": "* * * * * *"},
        {"cron": "R * * * *"},
        {"cron": "H H * * *"},
        {"cron": "@reboot"},
        {"cron": ""},
        {"cron": "@daily", "everySeconds": 5},
        {},
        {"everySeconds": 0},
        {"cron": "@daily", "timezone": "Mars/Base"},
        {"cron": "@daily", "timezone": "../etc/passwd"},
        {"cron": "@daily", "startDate": "20200230"},
        {"cron": "@daily", "startDate": "20200202", "endDate": "20200201"},
        {"cron": "@daily", "status": 2},
        {"cron": "@daily", "overlap": "maybe"},
    ],
)
def test_invalid_schedules_are_rejected(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        a_schedule(**fields)


def test_the_models_import_no_heavy_packages() -> None:
    script = (
        "import sys, shardmill.model.definition.validation;"
        "import shardmill.model.worker, shardmill.model.time.schedule;"
        "print([m for m in ('boto3', 'croniter', 'difflib', 'email_validator')"
        " if m in sys.modules and m not in before])"
    )
    done = subprocess.run(
        [sys.executable, "-c", "import sys, pydantic; before = set(sys.modules);" + script],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stdout.strip() == "[]"
