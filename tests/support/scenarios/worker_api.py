"""The worker routes of the HTTP API (register, lease, report and heartbeat), and the queues behind them."""

from __future__ import annotations

from typing import Any

from support.scenarios.job_runner import JobRunner


def register(runner: JobRunner, name: str = "w", **more: Any) -> dict[str, Any]:
    answer = runner.cloud.http("POST", "/v1/workers", {"name": name, "groups": ["default"], **more})
    assert answer.status == 201, answer.json
    return answer.json


def lease(runner: JobRunner, worker: dict[str, Any], most: int = 10) -> list[dict[str, Any]]:
    answer = runner.cloud.http("POST", "/v1/work:lease", {"workerId": worker["id"], "max": most})
    assert answer.status == 200, answer.json
    return answer.json["items"]


def report(runner: JobRunner, worker: dict[str, Any], tasks: list[dict[str, Any]], **more: Any) -> Any:
    results = [
        {"taskId": task["taskId"], "attempt": task["attempt"], "outcome": "success", **more} for task in tasks
    ]
    return runner.cloud.http("POST", "/v1/work:report", {"workerId": worker["id"], "results": results})


def heartbeat(runner: JobRunner, worker: dict[str, Any], tasks: list[dict[str, Any]], **more: Any) -> Any:
    work = [{"taskId": task["taskId"], "attempt": task["attempt"]} for task in tasks]
    body = {"session": worker["session"], "work": work, **more}
    return runner.cloud.http("POST", f"/v1/workers/{worker['id']}:heartbeat", body)


def read_worker(runner: JobRunner, worker: dict[str, Any]) -> dict[str, Any]:
    return runner.cloud.http("GET", f"/v1/workers/{worker['id']}").json


def start_tasks(runner: JobRunner, count: int = 3, **job: Any) -> None:
    """Submit a Job with one step of `count` tasks and wait until they can be leased."""
    runner.define({"stepName": "a", "sharding": count, **job.pop("step", {})}, **job)
    runner.submit()
    runner.cloud.run_until(lambda: runner.job()["steps"] and runner.row(0).token)


def message_count(runner: JobRunner, group: str = "default") -> int:
    """The number of messages in the queues of a group: visible, delayed and in flight."""
    row = runner.mill.groups.get(group)
    assert row is not None
    answers = [
        runner.cloud.clients.sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
        for queue in row.queues
    ]
    return sum(int(value) for each in answers for name, value in each.items() if name.startswith("Approx"))


def lose_messages(runner: JobRunner, group: str = "default") -> None:
    """Delete all messages in the queues of a group."""
    row = runner.mill.groups.get(group)
    assert row is not None
    for queue in row.queues:
        runner.cloud.clients.sqs.purge_queue(QueueUrl=queue)
