"""Schedules, dependencies and a backfill on the laptop cloud with the real rule and tick."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.laptop import Laptop
from support.waits import run_until

pytestmark = pytest.mark.xdist_group("waiting")  # waits for ticks and heartbeats, uses little CPU
STEP = {"stepName": "a", "type": "shell", "content": "echo {{ job.dataTime }}"}


def jobs(laptop: Laptop, name: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = laptop.request("GET", f"/v1/jobs?jobName={name}").json()["items"]
    return items


def test_the_tick_fires_a_schedule_and_the_end_of_a_job_starts_its_child(laptop: Laptop) -> None:
    laptop.request("PUT", "/v1/definitions/clock-parent", {"steps": [STEP]}).raise_for_status()
    child = {"steps": [STEP], "dependencies": ["clock-parent"]}
    laptop.request("PUT", "/v1/definitions/clock-child", child).raise_for_status()
    path = "/v1/schedules/clock-parent/often"
    saved = laptop.request("PUT", path, {"everySeconds": 30, "overlap": "skip"}).json()
    done = run_until(
        lambda: [job for job in jobs(laptop, "clock-child") if job["state"] == "SUCCESS"], timeout=110
    )
    laptop.request("DELETE", path).raise_for_status()
    parents = {job["dataTime"]: job for job in jobs(laptop, "clock-parent")}
    assert min(parents) == saved["nextTime"]
    assert {job["dataTime"] for job in done} <= set(parents)
    assert all(job["scheduleId"] == "often" for job in parents.values())


def test_the_command_line_runs_a_backfill_once(laptop: Laptop) -> None:
    laptop.request("PUT", "/v1/definitions/clock-past", {"steps": [STEP]}).raise_for_status()
    made = laptop.run("schedule", "save", "clock-past", "daily", "--cron", "0 3 * * *", "--json")
    assert made.returncode == 0, made.stderr
    span = ["--from", "2026-01-01", "--to", "2026-01-06", "--parallel", "3"]
    ran = laptop.run("schedule", "backfill", "clock-past", "daily", *span, "--wait", "--json")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["success"] == 5
    repeated = laptop.run("schedule", "backfill", "clock-past", "daily", *span, "--wait", "--json")
    assert json.loads(repeated.stdout)["skipped"] == 5
    assert len(jobs(laptop, "clock-past")) == 5
