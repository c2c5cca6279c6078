"""The rows of a step's tasks are spread over partitions, and are read with few calls."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shardmill.engine.groups.matching import WorkerSession
from shardmill.engine.tasks.fair_share import DEFAULT_WINDOW
from shardmill.engine.tasks.lease import lease
from shardmill.model.blocks import BLOCK_SIZE, UNTOUCHED, block_count
from shardmill.model.states import StepState, TaskState
from shardmill.store.rows import StepRow
from shardmill.store.shards import BlockChanged
from shardmill.store.tasks.keys import TASK_PARTITIONS
from shardmill.store.tasks.results import TaskOutput
from support.aws_rules.faults import Faults
from support.moto.moto_cloud import moto_cloud
from support.scenarios.job_runner import JobRunner

TASKS_PER_SECOND = 10_000
UNITS_PER_SECOND = 1_000
"""What DynamoDB writes to one partition in a second."""
MILLION = StepRow("j", 1, 0, "a", StepState.RUNNING, "orders", "t", 0, total=1_000_000, open={*"01234", "61"})


@pytest.fixture
def weighed() -> Iterator[tuple[JobRunner, Faults]]:
    with moto_cloud() as cloud, Faults(weigh=True, rules=False) as faults:
        yield JobRunner(cloud), faults


def test_no_partition_gets_more_than_half_its_limit_at_10_000_tasks_a_second(
    weighed: tuple[JobRunner, Faults],
) -> None:
    runner, faults = weighed
    tasks = 3 * BLOCK_SIZE
    runner.define({"stepName": "a", "sharding": tasks})
    runner.submit()
    runner.cloud.run_until(lambda: runner.job()["steps"] and runner.row(0).token, 60)
    messages = [message for _ in range(tasks // 10 + 1) for message in runner.worker.receive()]
    faults.meter.reset()
    for at in range(0, tasks, 10):
        session = WorkerSession.of(runner.worker.row)
        leases = lease(runner.mill, session, messages[at : at + 10], runner.worker.clock())
        runner.worker.report(leases, count_now=False)
    units = {key: count for key, count in faults.meter.partition_units.items() if key.startswith("pk=T#")}
    assert len(units) == block_count(tasks)
    assert sum(units.values()) / tasks <= 0.37
    per_task = max(units.values()) / BLOCK_SIZE
    partitions = DEFAULT_WINDOW // BLOCK_SIZE  # a step works on so many tasks at a time, in so many blocks
    assert per_task * TASKS_PER_SECOND / partitions <= UNITS_PER_SECOND / 2


def test_the_open_blocks_of_a_million_tasks_are_read_with_one_query_for_each_partition(
    runner: JobRunner, faults: Faults
) -> None:
    shards = runner.mill.shards
    shards.make_sets(MILLION)
    shard = next(iter(shards.blocks(MILLION, [0]).values()))[0].evolve(state=TaskState.SUCCESS, attempt=1)
    for number in (3, 200, 255, 15_616, 15_624):
        shards.change(MILLION, number, {number * 64: None}, {number * 64: shard})
    faults.meter.reset()
    blocks = list(shards.open_blocks(MILLION))
    assert [block.number for block in blocks] == [*range(5 * 256), *range(15_616, 15_625)]
    assert [block.number for block in blocks if block.shards] == [3, 200, 255, 15_616, 15_624]
    assert faults.meter.calls == {"dynamodb.BatchGetItem": 1, "dynamodb.Query": TASK_PARTITIONS}
    counts = shards.counts([MILLION])[0]
    assert (counts[TaskState.SUCCESS], counts.total()) == (5, MILLION.total)


def test_a_lease_is_refused_with_the_block_if_a_task_has_changed_or_it_is_swept(runner: JobRunner) -> None:
    shards = runner.mill.shards
    leased = UNTOUCHED.evolve(state=TaskState.RUNNING, attempt=1, worker="w.1", time=1)
    shards.lease(MILLION, 1, {64: None, 65: None}, {64: leased, 65: leased})
    with pytest.raises(BlockChanged) as refused:
        shards.lease(MILLION, 1, {65: None, 66: None}, {65: leased, 66: leased})
    assert dict(refused.value.block.shards) == {0: leased, 1: leased}
    shards.sweep(MILLION, refused.value.block, {})
    with pytest.raises(BlockChanged) as refused:
        shards.lease(MILLION, 1, {66: None}, {66: leased})
    assert refused.value.block.swept


def test_few_blocks_are_read_by_their_keys(runner: JobRunner, faults: Faults) -> None:
    step = MILLION.evolve(total=1_000, open={str(number) for number in range(16)})
    faults.meter.reset()
    assert len(list(runner.mill.shards.all_blocks(step))) == 16
    assert faults.meter.calls == {"dynamodb.BatchGetItem": 1}


def test_outputs_of_all_partitions_are_read_and_purged(runner: JobRunner) -> None:
    step = MILLION.evolve(total=40 * BLOCK_SIZE, open=set())
    shards = runner.mill.shards
    stored = {(rank, 1): TaskOutput(output=rank) for rank in range(0, step.total, 50)}
    shards.put_outputs((step, rank, attempt, output) for (rank, attempt), output in stored.items())
    assert {key: output.output for key, output in shards.outputs(step).items()} == {
        key: output.output for key, output in stored.items()
    }
    assert [shards.purge(step, most=30) for _ in range(3)] == [30, len(stored) - 30, 0]
    assert shards.outputs(step) == {}
