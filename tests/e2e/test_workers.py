"""Worker processes on the laptop cloud: direct, over HTTP, killed, stopped and on Lambda; large Jobs."""

import os
import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.laptop import Laptop
from support.processes import descendants
from support.scenarios.stage import laptop_stage


def group(laptop: Laptop, name: str, lease_seconds: int = 10) -> str:
    answer = laptop.request("PUT", f"/v1/groups/{name}", {"leaseSeconds": lease_seconds})
    assert answer.status_code in (200, 201), answer.text
    return name


@pytest.mark.timeout(180)
def test_a_task_of_a_killed_worker_runs_on_another_without_a_failure(laptop: Laptop) -> None:
    stage = laptop_stage(laptop)
    name = group(laptop, "killed-workers")
    stage.define(
        {
            "stepName": "slow",
            "sharding": 2,
            "type": "shell",
            "content": 'test "$SHARDMILL_ATTEMPT" -gt 1 || sleep 600',
        },
        workerGroup=name,
    )
    killed = laptop.worker("--group", name, "--slots", "2", "--name", "killed")
    stage.submit()
    stage.until(
        lambda: stage.job(), lambda job: job["steps"] and job["steps"][0]["counts"].get("RUNNING") == 2
    )
    children = descendants(killed.pid)
    killed.kill()
    for child in children:
        if os.path.exists(f"/proc/{child}"):
            os.kill(child, signal.SIGKILL)
    laptop.worker("--group", name, "--slots", "2", "--name", "replacement")
    job = stage.finished(seconds=120)
    assert job["state"] == "SUCCESS"
    for index in (0, 1):
        task = stage.step("slow", f"/tasks/{index}")
        assert (task["attempt"], task["failed"]) == (2, 0)
        assert [attempt["reason"] for attempt in task["attempts"]] == ["lost", None]


def test_a_worker_over_http_needs_only_a_token(laptop: Laptop) -> None:
    stage = laptop_stage(laptop)
    name = group(laptop, "remote")
    stage.define(
        {"stepName": "a", "sharding": 12, "type": "shell", "content": "echo $HOSTNAME"}, workerGroup=name
    )
    worker = laptop.worker("--group", name, "--slots", "4", "--name", "over-http")
    stage.submit()
    job = stage.finished()
    assert job["steps"][0]["counts"] == {"SUCCESS": 12}
    assert worker.stop() == 0
    workers = stage.get("/v1/workers?limit=1000")["items"]
    [mine] = [worker for worker in workers if worker["name"] == "over-http"]
    assert mine["status"] == 0
    assert mine["groups"] == [name]


def test_a_task_does_not_see_the_credentials_of_a_worker_that_uses_aws_directly(laptop: Laptop) -> None:
    """tests/unit/worker/test_isolation.py tries the other ways; only root may read this file at all."""
    stage = laptop_stage(laptop)
    name = group(laptop, "direct-secrets")
    names = "SHARDMILL_TOKEN|AWS_ACCESS_KEY_ID|AWS_SECRET_ACCESS_KEY|AWS_SESSION_TOKEN"
    look = f"tr '\\0' '\\n' < /proc/$PPID/environ | grep -E '^({names})='; env | grep -E '^({names})='; true"
    stage.define({"stepName": "a", "type": "shell", "content": look}, workerGroup=name)
    laptop.worker("--group", name, "--name", name, "--aws")
    stage.submit()
    assert stage.finished()["state"] == "SUCCESS"
    seen = stage.step("a", "/tasks/0")["stdout"]
    assert re.fullmatch(r"(\w+=x+\n)*", seen), seen


def test_the_lambda_group_runs_tasks_without_workers(laptop: Laptop) -> None:
    stage = laptop_stage(laptop)
    stage.define(
        {"stepName": "a", "sharding": 25},
        {"stepName": "b", "dependentStep": "a", "type": "shell", "content": "echo from lambda"},
        workerGroup="lambda",
    )
    stage.submit()
    job = stage.finished(seconds=90)
    assert job["state"] == "SUCCESS"
    assert job["steps"][0]["counts"] == {"SUCCESS": 25}
    assert stage.step("b", "/tasks/0")["stdout"] == "from lambda\n"


def test_a_stopped_worker_hands_back_its_tasks(laptop: Laptop) -> None:
    stage = laptop_stage(laptop)
    name = group(laptop, "leaving", lease_seconds=300)
    stage.define(
        {"stepName": "a", "type": "shell", "content": 'test "$SHARDMILL_ATTEMPT" -gt 1 || sleep 600'},
        workerGroup=name,
    )
    first = laptop.worker("--group", name, "--name", "first", "--grace", "1")
    stage.submit()
    stage.until(lambda: stage.job(), lambda job: job["state"] == "RUNNING")
    time.sleep(0.5)
    assert first.stop() == 0
    laptop.worker("--group", name, "--name", "second")
    job = stage.finished(seconds=60)
    assert job["state"] == "SUCCESS"
    assert stage.step("a", "/tasks/0")["failed"] == 0


def test_fifty_simultaneous_requests_create_one_job(laptop: Laptop) -> None:
    stage = laptop_stage(laptop)
    stage.define({"stepName": "a"})
    request = {"jobName": stage.name, "trigger": "same"}
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda _: laptop.request("POST", "/v1/jobs", request), range(50)))
    assert {answer.status_code for answer in answers} == {200, 202}
    assert sum(answer.status_code == 202 for answer in answers) == 1
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert stage.finished("same")["state"] == "SUCCESS"


@pytest.mark.timeout(400)
def test_a_step_with_seventeen_thousand_shards_succeeds(laptop: Laptop) -> None:
    stage = laptop_stage(laptop)
    stage.define({"stepName": "giant", "sharding": 17_000})
    stage.submit()
    job = stage.finished(seconds=380, every=1)
    assert job["state"] == "SUCCESS"
    assert job["steps"][0]["counts"] == {"SUCCESS": 17_000}
    assert job["steps"][0]["totalWork"] == 17_000
    last = stage.step("giant", "/tasks/16999")
    assert (last["state"], last["attempt"]) == ("SUCCESS", 1)


@pytest.mark.timeout(200)
def test_two_thousand_dependent_steps_are_skipped_after_a_failure(laptop: Laptop) -> None:
    stage = laptop_stage(laptop)
    first = {"stepName": "s0", "type": "shell", "content": "exit 42"}
    stage.define(first, *[{"stepName": f"s{n}", "dependentStep": f"s{n - 1}"} for n in range(1, 2000)])
    stage.submit()
    job = stage.finished(seconds=180, every=3)
    assert job["state"] == "FAILED"
    states = [step["state"] for step in job["steps"]]
    assert (len(states), states[0], set(states[1:])) == (2000, "FAILED", {"SKIPPED"})
