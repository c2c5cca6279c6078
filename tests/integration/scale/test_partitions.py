"""How jobs and workers spread over the partitions of the indexes, and how lists merge them."""

from collections import Counter
from typing import Any

import pytest

from shardmill.model.states import JobState
from shardmill.store.rows import JobRow
from support.aws_rules.faults import Faults
from support.aws_rules.items import Item
from support.scenarios.job_runner import JobRunner
from support.scenarios.manual_worker import ManualWorker


def _job(number: int, **values: Any) -> JobRow:
    job_id = f"00000000-0000-4000-8000-{number:012d}"
    return JobRow(job_id, number, "orders", f"t{number}", 1, JobState.INIT, "hash", number, number).evolve(
        **values
    )


def _listed(runner: JobRunner, query: str = "") -> list[list[int]]:
    """The numbers of the jobs on each page of a list."""
    pages, cursor = [], None
    while True:
        path = f"/v1/jobs?limit=7{query}" + (f"&cursor={cursor}" if cursor else "")
        answer = runner.cloud.http("GET", path).json
        pages.append([job["jid"] for job in answer["items"]])
        cursor = answer["cursor"]
        if cursor is None:
            return pages


def _move_to_old_partitions(runner: JobRunner, job_id: str) -> None:
    """Give a job the index attributes of a version that did not spread the jobs."""
    runner.cloud.clients.dynamodb.update_item(
        TableName=runner.cloud.table,
        Key={"pk": {"S": f"JOB#{job_id}"}, "sk": {"S": "job"}},
        UpdateExpression="SET lk = :job, tk = :state, dk = :due",
        ExpressionAttributeValues={":job": {"S": "job"}, ":state": {"S": "INIT"}, ":due": {"S": "due"}},
    )


@pytest.mark.parametrize("query", ["", "&state=INIT", "&jobName=orders", "&jobName=orders&state=INIT"])
def test_a_list_shows_the_jobs_of_all_partitions_newest_first(runner: JobRunner, query: str) -> None:
    numbers = [*range(1, 40, 2), *range(40, 2, -2)]
    for number in numbers:
        assert runner.mill.jobs.create(_job(number), due=0)
        if number % 5 == 0:
            _move_to_old_partitions(runner, _job(number).id)
    pages = _listed(runner, query)
    assert [jid for page in pages for jid in page] == sorted(numbers, reverse=True)
    assert [len(page) for page in pages] == [7] * 5 + [4]
    assert len(runner.mill.watches.due(1, limit=100)) == len(numbers)


def test_a_list_reads_no_more_than_its_page(runner: JobRunner, faults: Faults) -> None:
    for number in range(1, 61):
        runner.mill.jobs.create(_job(number), due=0)
    faults.meter.reset()
    assert runner.cloud.http("GET", "/v1/jobs?limit=5").json["items"][0]["jid"] == 60
    assert faults.meter.calls["dynamodb.Query"] <= 16
    assert faults.meter.calls["dynamodb.BatchGetItem"] == 1


def test_a_row_that_has_left_a_list_is_not_shown_by_a_stale_index(runner: JobRunner, faults: Faults) -> None:
    runner.mill.jobs.create(_job(1), due=0)
    runner.mill.jobs.create(_job(2), due=0)
    stale: list[Item] = []

    def keep_deleted(call: Any, make: Any) -> Any:
        answer = make(call)
        if call.operation == "Query" and call.params.get("IndexName") == "list":
            stale.extend(answer["Items"])
            found = [item for item in stale if item["lk"] == call.params["ExpressionAttributeValues"][":p"]]
            answer["Items"] = list({item["pk"]["S"]: item for item in found}.values())
        return answer

    faults.add_rule(keep_deleted)
    assert _listed(runner) == [[2, 1]]
    job = runner.mill.jobs.get(_job(2).id)
    assert job
    assert runner.mill.jobs.mark_deleted(job, actor="a", now=5, due=None, purge=False, ending=False)
    assert _listed(runner) == [[1]]


def test_a_heartbeat_writes_no_index(runner: JobRunner) -> None:
    workers = [ManualWorker(runner.mill, f"w{number}", ["default"]) for number in range(3)]
    with Faults(weigh=True) as faults:
        for worker in workers:
            worker.beat([])
        units = Counter(faults.meter.partition_units)
    assert set(units) == {f"pk=WORKER#{worker.row.id}" for worker in workers}
    assert set(units.values()) == {1}
