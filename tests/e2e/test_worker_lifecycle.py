"""Real worker processes that freeze, drain, share a name, reject or fail tasks."""

import os
import signal
from typing import Any

import pytest

from e2e.test_workers import group
from shardmill.engine.workers.registry import worker_id
from support.laptop import Laptop
from support.processes import running_commands
from support.scenarios.stage import Stage, laptop_stage

WAIT_ONCE = 'test "$SHARDMILL_ATTEMPT" -gt 1 || sleep 600'


def worker_row(stage: Stage, name: str) -> dict[str, Any]:
    return stage.get(f"/v1/workers/{worker_id(name)}")


def wait_until_running(stage: Stage, count: int) -> None:
    def enough(job: dict[str, Any]) -> bool:
        return bool(job["steps"]) and job["steps"][0]["counts"].get("RUNNING", 0) >= count

    stage.until(stage.job, enough)


def wait_until_online(stage: Stage, *names: str) -> None:
    for name in names:
        stage.until(
            lambda name=name: stage.get("/v1/workers?limit=1000")["items"],
            lambda items, name=name: any(each["name"] == name and each["status"] == 3 for each in items),
        )


@pytest.mark.timeout(180)
@pytest.mark.parametrize("form", [[], ["--aws"]], ids=["http", "aws"])
def test_a_frozen_worker_loses_its_task_and_cannot_overwrite_the_newer_attempt(
    laptop: Laptop, form: list[str]
) -> None:
    stage = laptop_stage(laptop)
    name = group(laptop, f"frozen-{len(form)}")
    content = 'test "$SHARDMILL_ATTEMPT" -gt 1 || { sleep 15; echo old; }; echo attempt $SHARDMILL_ATTEMPT'
    stage.define({"stepName": "a", "type": "shell", "content": content}, workerGroup=name)
    frozen = laptop.worker("--group", name, "--name", f"{name}-frozen", *form)
    stage.submit()
    wait_until_running(stage, 1)
    os.kill(frozen.pid, signal.SIGSTOP)
    laptop.worker("--group", name, "--name", f"{name}-second")
    try:
        job = stage.finished(seconds=90)
    finally:
        os.kill(frozen.pid, signal.SIGCONT)
    assert job["state"] == "SUCCESS"
    task = stage.step("a", "/tasks/0")
    assert (task["attempt"], task["failed"], task["stdout"]) == (2, 0, "attempt 2\n")
    assert [attempt["reason"] for attempt in task["attempts"]] == ["lost", None]
    stage.until(frozen.read_log, lambda log: "action=task-dropped" in log or "action=result-ignored" in log)
    later = stage.step("a", "/tasks/0")
    assert [later[each] for each in ("state", "attempt", "worker", "stdout", "completedTime")] == [
        task[each] for each in ("state", "attempt", "worker", "stdout", "completedTime")
    ]


@pytest.mark.timeout(180)
def test_a_worker_drained_under_load_finishes_its_tasks_and_exits(laptop: Laptop) -> None:
    stage = laptop_stage(laptop)
    name = group(laptop, "draining")
    stage.define({"stepName": "a", "sharding": 40, "type": "shell", "content": "sleep 0.2"}, workerGroup=name)
    leaving = laptop.worker("--group", name, "--name", "drained", "--slots", "2")
    stage.submit()
    wait_until_running(stage, 1)
    assert laptop.run("workers", "drain", "drained", "--reason", "new kernel").returncode == 0
    assert leaving.popen is not None
    assert leaving.popen.wait(60) == 0
    row = worker_row(stage, "drained")
    assert (row["status"], row["currentWork"]) == (0, [])
    assert "new kernel" in row["notes"]
    laptop.worker("--group", name, "--name", "after", "--slots", "4")
    job = stage.finished(seconds=60)
    assert job["steps"][0]["counts"] == {"SUCCESS": 40}
    tasks = stage.step("a", "/tasks?limit=100")["items"]
    assert {task["failed"] for task in tasks} == {0}  # tasks that had not started may have been handed back


@pytest.mark.timeout(120)
def test_a_worker_stops_when_another_registers_with_its_name(laptop: Laptop) -> None:
    stage = laptop_stage(laptop)
    name = group(laptop, "same-name")
    older = laptop.worker("--group", name, "--name", "duplicate")
    wait_until_online(stage, "duplicate")
    laptop.worker("--group", name, "--name", "duplicate")
    assert older.popen is not None
    assert older.popen.wait(60) != 0
    assert "registered again" in older.read_log()
    stage.define({"stepName": "a"}, workerGroup=name)
    stage.submit()
    assert stage.finished()["state"] == "SUCCESS"
    assert worker_row(stage, "duplicate")["session"] == 2


@pytest.mark.timeout(120)
def test_a_worker_without_the_required_app_passes_tasks_on(laptop: Laptop) -> None:
    stage = laptop_stage(laptop)
    name = group(laptop, "picky")
    laptop.worker("--group", name, "--name", "picky-wrong", "--app", "fasta")
    wait_until_online(stage, "picky-wrong")
    command = {"name": "/bin/echo", "args": "hello {{ shard.index }}"}
    stage.define({"stepName": "a", "sharding": 3, "command": command}, workerGroup=name)
    stage.submit()
    job = stage.until(stage.job, lambda job: job["waitingFor"])
    assert "runs '/bin/echo'" in job["waitingFor"][0]
    laptop.worker("--group", name, "--name", "picky-right", "--app", "echo")
    job = stage.finished()
    assert (job["state"], job["waitingFor"]) == ("SUCCESS", [])
    tasks = stage.step("a", "/tasks")["items"]
    assert {(task["attempt"], task["worker"]) for task in tasks} == {(1, worker_id("picky-right"))}


@pytest.mark.timeout(120)
def test_failures_of_five_steps_in_a_row_suspend_a_worker_until_it_is_resumed(laptop: Laptop) -> None:
    stage = laptop_stage(laptop)
    name = group(laptop, "failing")
    worker = laptop.worker("--group", name, "--name", "failing")
    wait_until_online(stage, "failing")
    bad = [
        {"stepName": f"bad{number}", "type": "shell", "content": "exit 1", "canFail": True}
        for number in range(5)
    ]
    good = {"stepName": "good", "sharding": 7, "dependentSteps": [step["stepName"] for step in bad]}
    stage.define(*bad, good, workerGroup=name, failedRetries=0)
    stage.submit()
    row = stage.until(lambda: worker_row(stage, "failing"), lambda row: row["activity"] == "suspended")
    assert "5 failures in a row" in row["notes"]
    job = stage.until(stage.job, lambda job: job["waitingFor"])
    assert "failing" in job["waitingFor"][0]
    stage.until(worker.read_log, lambda log: "suspended" in log)
    shown = laptop.run("workers", "resume", "failing")
    assert shown.returncode == 0, shown.stderr
    assert stage.finished(seconds=60)["steps"][5]["counts"] == {"SUCCESS": 7}
    row = worker_row(stage, "failing")
    assert len(row["skipWork"]) == 5
    stage.until(lambda: worker_row(stage, "failing")["totalCompleted"], lambda total: total == 7)


@pytest.mark.timeout(120)
def test_a_worker_above_its_maximum_load_rejects_tasks(laptop: Laptop) -> None:
    stage = laptop_stage(laptop)
    name = group(laptop, "rejecting")
    laptop.worker("--group", name, "--name", "loaded", "--max-load", "0")
    steps = [{"stepName": "a", "type": "shell", "content": "true"}]
    stage.define(*steps, workerGroup=name, rejectRetries=1, rejectInterval=0)
    stage.submit()
    job = stage.finished()
    assert job["state"] == "FAILED"
    assert "--max-load" in job["notes"]
    assert [each["reason"] for each in stage.step("a", "/tasks/0")["attempts"]] == ["rejected"] * 2


@pytest.mark.timeout(120)
def test_exit_codes_reject_a_task_or_fail_it_permanently(laptop: Laptop) -> None:
    stage = laptop_stage(laptop)
    content = 'test "$SHARDMILL_ATTEMPT" -gt 1 && exit 42; exit 75'
    stage.define({"stepName": "a", "type": "shell", "content": content}, rejectInterval=0, failedRetries=9)
    stage.submit()
    assert stage.finished()["state"] == "FAILED"
    attempts = stage.step("a", "/tasks/0")["attempts"]
    assert [(each["reason"], each["exitCode"]) for each in attempts] == [("rejected", 75), ("failed", 42)]


@pytest.mark.timeout(120)
def test_a_timeout_ends_the_process_group(laptop: Laptop) -> None:
    stage = laptop_stage(laptop)
    marker = f"sleep 7{os.getpid() % 10_000:04d}1"
    stage.define(
        {"stepName": "a", "type": "shell", "content": f"{marker} & {marker}"},
        timeoutSeconds=1,
        failedRetries=0,
    )
    stage.submit()
    assert stage.finished()["state"] == "FAILED"
    [attempt] = stage.step("a", "/tasks/0")["attempts"]
    assert attempt["reason"] == "timed-out"
    assert marker not in running_commands()


@pytest.mark.timeout(200)
def test_a_job_with_high_priority_overtakes_two_thousand_tasks(laptop: Laptop) -> None:
    stage = laptop_stage(laptop)
    name = group(laptop, "busy-lane")
    stage.define(
        {"stepName": "a", "sharding": 2_000, "type": "shell", "content": "sleep 0.05"},
        workerGroup=name,
        priority=1,
    )
    stage.submit()
    worker = laptop.worker("--group", name, "--name", "busy-lane", "--slots", "2")
    wait_until_running(stage, 1)
    urgent = laptop_stage(laptop)
    urgent.define({"stepName": "a", "type": "shell", "content": "true"}, workerGroup=name, priority=10)
    urgent.submit()
    assert urgent.finished(seconds=60)["state"] == "SUCCESS"
    done = stage.job()["steps"][0]["counts"].get("SUCCESS", 0)
    assert done < 1_000
    worker.stop()


@pytest.mark.timeout(200)
def test_a_small_job_does_not_wait_for_a_large_one(laptop: Laptop) -> None:
    giant = laptop_stage(laptop)
    name = group(laptop, "shared-lane")
    task = {"stepName": "a", "type": "shell", "content": "sleep 0.05"}
    giant.define({**task, "sharding": 10_000}, workerGroup=name)
    giant.submit()
    worker = laptop.worker("--group", name, "--name", "shared-lane", "--slots", "2")
    wait_until_running(giant, 1)
    small = laptop_stage(laptop)
    small.define({**task, "sharding": 10}, workerGroup=name)
    small.submit()
    assert small.finished(seconds=100)["state"] == "SUCCESS"
    done = giant.job()["steps"][0]["counts"].get("SUCCESS", 0)
    assert done < 1_000
    worker.stop()


@pytest.mark.timeout(120)
def test_progress_output_and_live_logs_of_a_task(laptop: Laptop) -> None:
    stage = laptop_stage(laptop)
    name = group(laptop, "live-logs")
    content = (
        "echo first; echo '40 half way' > $SHARDMILL_PROGRESS; echo '[1, 2]' > $SHARDMILL_OUTPUT; "
        "while [ ! -e {{ params.flag }} ]; do sleep 0.2; done; echo last"
    )
    flag = laptop.state.parent / "flag"
    step = {"stepName": "a", "type": "shell", "content": content}
    stage.define(step, workerGroup=name, params={"flag": str(flag)})
    laptop.worker("--group", name, "--name", "live-logs")
    stage.submit()
    wait_until_running(stage, 1)
    task = stage.until(lambda: stage.step("a", "/tasks/0"), lambda task: task["progress"])
    assert task["progress"] == {"percent": 40.0, "message": "half way"}
    log = stage.until(lambda: stage.step("a", "/tasks/0/logs"), lambda log: log["text"])
    assert (log["text"], log["complete"]) == ("first\n", False)
    flag.touch()
    assert stage.finished()["state"] == "SUCCESS"
    assert stage.step("a", "/tasks/0")["output"] == [1, 2]
    log = stage.step("a", "/tasks/0/logs")
    assert (log["text"], log["complete"]) == ("first\nlast\n", True)
