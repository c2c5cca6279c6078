"""Lists: pages limited by size, cursors, limited reads, and task counts."""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from shardmill.api import jobs, pagination
from shardmill.engine.tasks import completion
from shardmill.model.blocks import BLOCK_SIZE, SET_SIZE, Block, Shard
from shardmill.model.states import TaskState
from shardmill.store.table import Table
from shardmill.store.tasks import keys as task_keys
from shardmill.store.update import Update
from support.aws_rules.faults import Faults
from support.moto.cloud import Cloud
from support.scenarios.job_runner import JobRunner

LAMBDA_ANSWER_BYTES = 6 * 1024 * 1024
TASKS = "/v1/jobs/orders/t1/steps/a/tasks"
DONE = Shard(TaskState.SUCCESS, attempt=1, worker="w.1", time=1, span=2)


def pages_of(cloud: Cloud, path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor = ""
    while True:
        joint = "&" if "?" in path else "?"
        response = cloud.http("GET", f"{path}{joint}cursor={cursor}" if cursor else path)
        assert response.status == 200, response
        assert len(json.dumps(response.text)) < LAMBDA_ANSWER_BYTES
        found.append(response.json)
        cursor = response.json["cursor"]
        if cursor is None:
            return found


def items_of(cloud: Cloud, path: str) -> list[Any]:
    return [item for page in pages_of(cloud, path) for item in page["items"]]


def start_step(runner: JobRunner, **step: Any) -> None:
    """Start a Job of one step `a` and wait until its execution waits for the tasks."""
    runner.define({"stepName": "a", **step})
    runner.submit()
    runner.cloud.run_until(lambda: runner.job()["steps"] and runner.row(0).token, 30)


def test_pages_of_large_items_are_short(runner: JobRunner) -> None:
    hostile = ('"\\\n\N{SNOWMAN}\N{GRINNING FACE}' * 40_000)[:100_000]
    start_step(runner, sharding=100, params={"text": hostile})
    found = pages_of(runner.cloud, f"{TASKS}?limit=100")
    assert [task["rank"] for page in found for task in page["items"]] == list(range(100))
    assert len(found) > 2
    assert all(page["items"] for page in found)


@pytest.mark.parametrize("max_bytes", [1, 1_500])
def test_every_list_is_paged_by_bytes_and_contains_each_item_once(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch, max_bytes: int
) -> None:
    monkeypatch.setattr(pagination, "MAX_RESPONSE_BYTES", max_bytes)
    for name in ("orders", "b", "c"):
        runner.define({"stepName": "a", "sharding": 5}, name=name, description="d" * 200)
    runner.define({"stepName": "a", "sharding": 5}, description="d" * 200)
    for trigger in ("t1", "t2", "t3"):
        runner.submit(trigger)
    runner.cloud.run_until(lambda: runner.job()["steps"] and runner.row(0).total)
    wanted: list[tuple[str, str, list[Any]]] = [
        ("/v1/definitions", "jobName", ["b", "c", "orders"]),
        ("/v1/definitions/orders/versions", "version", [2, 1]),
        ("/v1/jobs", "trigger", ["t3", "t2", "t1"]),
        ("/v1/jobs?jobName=orders", "trigger", ["t3", "t2", "t1"]),
        (TASKS, "rank", [0, 1, 2, 3, 4]),
        ("/v1/groups", "name", ["default", "lambda"]),
        ("/v1/workers", "name", ["manual"]),
    ]
    for path, field, values in wanted:
        found = pages_of(runner.cloud, path)
        assert [item[field] for page in found for item in page["items"]] == values
        assert all(page["items"] for page in found)
        for page in found:
            sizes = [len(json.dumps(json.dumps(item, separators=(",", ":")))) for item in page["items"]]
            assert len(sizes) == 1 or sum(sizes) <= max_bytes


def test_a_list_of_large_definitions_omits_their_steps(cloud: Cloud, faults: Faults) -> None:
    step = {"stepName": "a", "type": "shell", "content": "x" * 900_000}
    for name in ("a", "b", "c"):
        saved = cloud.http("PUT", f"/v1/definitions/{name}", {"steps": [step], "appName": "finance"})
        assert saved.status == 201
    response = cloud.http("GET", "/v1/definitions")
    assert [item["jobName"] for item in response.json["items"]] == ["a", "b", "c"]
    assert len(response.text) < 2_000
    first = response.json["items"][0]
    assert (first["version"], first["stepCount"], first["appName"]) == (1, 1, "finance")
    assert "steps" not in first


def test_a_list_omits_fields_that_a_newer_version_removed(cloud: Cloud) -> None:
    cloud.http("PUT", "/v1/definitions/a", {"steps": [{"stepName": "a"}], "description": "old"})
    cloud.http("PUT", "/v1/definitions/a", {"steps": [{"stepName": "a"}, {"stepName": "b"}]})
    newest = cloud.http("GET", "/v1/definitions").json["items"][0]
    assert (newest["description"], newest["stepCount"]) == (None, 2)
    versions = cloud.http("GET", "/v1/definitions/a/versions").json["items"]
    assert [each["description"] for each in versions] == [None, "old"]


def test_a_cursor_belongs_to_its_list_and_its_filters(runner: JobRunner) -> None:
    for name in ("orders", "b"):
        runner.define({"stepName": "a", "sharding": 3}, name=name)
        runner.define({"stepName": "a", "sharding": 3}, name=name)
        runner.submit("t1", name)
        runner.submit("t2", name)
    runner.cloud.run_until(lambda: runner.job()["steps"] and runner.row(0).total)
    lists = [
        "/v1/definitions?limit=1",
        "/v1/groups?limit=1",
        "/v1/definitions/orders/versions?limit=1",
        "/v1/jobs?limit=1",
        "/v1/jobs?limit=1&jobName=orders",
        "/v1/jobs?limit=1&jobName=b",
        f"{TASKS}?limit=1",
        f"{TASKS}?limit=1&state=READY",
        "/v1/jobs/orders/t2/steps/a/tasks?limit=1",
    ]
    runner.cloud.run_until(lambda: runner.job("t2")["steps"] and runner.row(0, "t2").total)
    cursors = {path: runner.cloud.http("GET", path).json["cursor"] for path in lists}
    for path in lists:
        for origin, cursor in cursors.items():
            response = runner.cloud.http("GET", f"{path}&cursor={cursor}")
            if origin == path:
                assert response.status == 200
                assert len(response.json["items"]) == 1
            else:
                assert (response.status, response.json["code"]) == (422, "invalid-request")
                assert [fault["code"] for fault in response.json["faults"]] == ["bad-cursor"]


def test_the_limit_can_change_between_pages(runner: JobRunner) -> None:
    start_step(runner, sharding=5)
    first = runner.cloud.http("GET", f"{TASKS}?limit=2").json
    rest = runner.cloud.http("GET", f"{TASKS}?limit=50&cursor={first['cursor']}").json
    assert [task["rank"] for task in rest["items"]] == [2, 3, 4]
    assert rest["cursor"] is None


def test_a_selective_filter_reads_a_limited_number_of_rows(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch, faults: Faults
) -> None:
    monkeypatch.setattr(jobs, "MAX_TASKS_SCANNED", 2 * BLOCK_SIZE)
    monkeypatch.setattr(jobs, "BLOCKS_PER_QUERY", 2)
    start_step(runner, sharding=8 * BLOCK_SIZE, maxTaskCount=1)
    failed = 5 * BLOCK_SIZE + 1
    runner.mill.shards.change(runner.row(0), 5, {failed: None}, {failed: DONE.evolve(state=TaskState.FAILED)})
    faults.meter.reset()
    found = pages_of(runner.cloud, f"{TASKS}?state=FAILED")
    assert [task["rank"] for page in found for task in page["items"]] == [failed]
    assert [len(page["items"]) for page in found] == [0, 0, 1, 0]
    assert faults.meter.calls["dynamodb.BatchGetItem"] <= 2 * len(found)


def test_a_search_for_jobs_of_a_user_reads_a_limited_number_of_jobs_per_page(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "MAX_JOBS_SCANNED", 2)
    runner.define({"stepName": "a"})
    for trigger in ("t1", "t2", "t3", "t4", "t5"):
        runner.submit(trigger)
    assert [page["items"] for page in pages_of(runner.cloud, "/v1/jobs?submitUser=nobody")] == [[], [], []]
    assert len(items_of(runner.cloud, "/v1/jobs?submitUser=admin")) == 5
    runner.run()
    ended = items_of(runner.cloud, "/v1/jobs?jobName=orders&state=SUCCESS&submitUser=admin")
    assert "t1" in [job["trigger"] for job in ended]


def close_set(runner: JobRunner, number: int) -> None:
    """Close all blocks of a set in its totals only, without writing the rows of the blocks."""
    step, ends = runner.row(0), {"success": SET_SIZE * BLOCK_SIZE}
    key = task_keys.block_set(step.job_id, step.run, step.index, number)
    Table(runner.cloud.clients.dynamodb, runner.cloud.table).update(Update(key).remove("open").add(**ends))
    runner.mill.jobs.close_block(step, str(number), ends, active=0)


def test_closed_blocks_are_counted_from_their_totals(runner: JobRunner, faults: Faults) -> None:
    total = 3 * SET_SIZE * BLOCK_SIZE + 1
    start_step(runner, sharding=total, maxTaskCount=10)
    close_set(runner, 0)
    block = Block(SET_SIZE, BLOCK_SIZE, dict.fromkeys(range(BLOCK_SIZE), DONE))
    completion.close_block(runner.mill, runner.row(0), block)
    done = (SET_SIZE + 1) * BLOCK_SIZE
    faults.meter.reset()
    assert runner.job()["steps"][0]["counts"] == {"SUCCESS": done, "READY": total - done}
    assert faults.meter.calls["dynamodb.Query"] == 1  # the steps
    assert faults.meter.calls["dynamodb.BatchGetItem"] <= 7  # the sets, and 513 open blocks by their keys
    assert runner.step("a")["counts"] == {"SUCCESS": done, "READY": total - done}


def test_a_set_that_ended_in_other_states_is_not_read(runner: JobRunner, faults: Faults) -> None:
    start_step(runner, sharding=SET_SIZE * BLOCK_SIZE + 1, maxTaskCount=10)
    close_set(runner, 0)
    faults.meter.reset()
    found = pages_of(runner.cloud, f"{TASKS}?state=READY")
    assert [[task["rank"] for task in page["items"]] for page in found] == [[SET_SIZE * BLOCK_SIZE]]
    assert faults.meter.calls["dynamodb.BatchGetItem"] <= 2  # the sets, and the last block
    assert pages_of(runner.cloud, f"{TASKS}?state=FAILED") == [{"items": [], "cursor": None}]


@pytest.mark.parametrize("sharding", [1, 70, 20 * BLOCK_SIZE + 3])
def test_counts_agree_with_the_tasks_at_every_moment(runner: JobRunner, sharding: int) -> None:
    start_step(runner, sharding=sharding, toleratedFailures="100%", maxTaskCount=30)

    def agree() -> None:
        tasks = items_of(runner.cloud, f"{TASKS}?limit=1000")
        states = Counter(task["state"] for task in tasks)
        assert runner.job()["steps"][0]["counts"] == states
        assert runner.step("a")["counts"] == states
        assert states.total() == sharding

    agree()
    outcomes: list[Callable[[], Any]] = [
        lambda: runner.worker.report(runner.worker.take()),
        lambda: runner.worker.report(runner.worker.take(), "failed-permanent"),
        lambda: runner.worker.take(),
    ]
    for act in outcomes:
        act()
        agree()


def test_a_stopping_step_counts_running_and_killed_tasks(runner: JobRunner) -> None:
    start_step(runner, sharding=130, failFast=True, maxTaskCount=10)
    held = runner.take(10)
    runner.worker.report(held[:1], "failed-permanent")
    runner.cloud.run_until(
        lambda: runner.row(0).swept and runner.job()["steps"][0]["counts"].get("KILLED") == 120
    )
    assert runner.job()["steps"][0]["counts"] == {"FAILED": 1, "RUNNING": 9, "KILLED": 120}
    runner.worker.report(held[1:])
    runner.cloud.run_until(lambda: runner.job()["state"] == "FAILED")
    assert runner.job()["steps"][0]["counts"] == {"FAILED": 1, "SUCCESS": 9, "KILLED": 120}


def test_a_job_with_many_open_steps_is_read_in_a_few_calls(runner: JobRunner, faults: Faults) -> None:
    runner.define(*[{"stepName": f"s{n}"} for n in range(20)])
    runner.submit()
    runner.cloud.run_until(lambda: runner.job()["steps"] and all(runner.row(n).token for n in range(20)), 30)
    faults.meter.reset()
    runner.job()
    assert faults.meter.total_calls <= 5
