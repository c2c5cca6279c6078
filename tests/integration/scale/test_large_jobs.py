"""Very large Jobs: rows, sets and messages of a million shards and wide phases."""

from collections.abc import Iterable

import pytest

from shardmill.engine.tasks import completion
from shardmill.model.blocks import SET_SIZE, Block, Shard, block_size
from shardmill.model.states import TaskState
from shardmill.store.rows import StepRow
from support.aws_rules.call import Call, ProcessKilled
from support.aws_rules.faults import Faults
from support.scenarios.job_runner import JobRunner

MILLION = 1_000_000
DONE = Shard(TaskState.SUCCESS, attempt=1, worker="w.1", time=1, span=2)


def open_two_sets(runner: JobRunner, **settings: object) -> StepRow:
    """Submit a step of one task more than a set holds, and wait until it is open."""
    runner.define({"stepName": "giant", "sharding": 16_385, "maxTaskCount": 1, **settings})
    runner.submit()
    runner.cloud.run_until(lambda: runner.job()["steps"] and runner.row(0).token, 30)
    step = runner.row(0)
    assert len(step.open) == 2
    return step


def close_blocks(runner: JobRunner, step: StepRow, numbers: Iterable[int]) -> None:
    for number in numbers:
        size = block_size(step.total, number)
        completion.close_block(runner.mill, step, Block(number, size, dict.fromkeys(range(size), DONE)))


def crash_before_the_set_closes(runner: JobRunner, faults: Faults, step: StepRow) -> None:
    """Close all blocks of the first set; the process dies after it removes the last from the set's row."""

    def last_block(call: Call) -> bool:
        return "255" in str(call.params.get("ExpressionAttributeValues"))

    faults.fail("dynamodb", "UpdateItem", how="crash", when=last_block)
    with pytest.raises(ProcessKilled):
        close_blocks(runner, step, range(256))
    assert runner.mill.shards.open_blocks_of_set(step, 0) == set()
    assert runner.row(0).open == {"0", "1"}


def test_a_million_shards_open_in_a_few_rows(runner: JobRunner, faults: Faults) -> None:
    runner.define({"stepName": "giant", "sharding": MILLION, "maxTaskCount": 10, "toleratedFailures": "100%"})
    runner.submit()
    runner.cloud.run_until(lambda: runner.job()["steps"] and runner.row(0).token, 30)
    step = runner.row(0)
    assert (step.total, len(step.open)) == (MILLION, 62)
    assert len(runner.mill.shards.open_blocks_of_set(step, 0)) == SET_SIZE
    assert len(runner.mill.shards.open_blocks_of_set(step, 61)) == 15_625 - 61 * SET_SIZE
    runner.worker.report(runner.take(10))
    assert sorted(lease.sharding.index for lease in runner.worker.take()) == list(range(10, 20))
    counts = runner.job()["steps"][0]["counts"]
    assert counts == {"SUCCESS": 10, "RUNNING": 10, "READY": MILLION - 20}
    last = runner.task("giant", MILLION - 1)
    assert (last["state"], last["sharding"]) == ("READY", {"total": MILLION, "index": MILLION - 1})
    page = runner.cloud.http("GET", "/v1/jobs/orders/t1/steps/giant/tasks?state=RUNNING&limit=10").json
    assert [task["rank"] for task in page["items"]] == list(range(10, 20))


def test_an_emptied_set_is_removed_from_the_step_once(runner: JobRunner) -> None:
    step = open_two_sets(runner)
    for _ in range(2):  # every block is closed twice, as after a crash
        close_blocks(runner, step, range(257))
    closed = runner.row(0)
    assert closed.open == set()
    assert (closed.success, closed.compute_ms) == (16_385, 2 * 16_385)
    runner.cloud.run_until(lambda: runner.job()["state"] == "SUCCESS", 20)


def test_the_tick_closes_a_set_whose_last_block_was_removed_before_a_crash(
    runner: JobRunner, faults: Faults
) -> None:
    step = open_two_sets(runner)
    crash_before_the_set_closes(runner, faults, step)
    assert runner.mill.jobs.raise_generation(step)  # voids the message that would repeat the closing
    close_blocks(runner, step, [256])
    runner.tick(minutes=3)
    closed = runner.row(0)
    assert (closed.open, closed.success, closed.compute_ms) == (set(), 16_385, 2 * 16_385)
    runner.cloud.run_until(lambda: runner.job()["state"] == "SUCCESS", 20)


def test_a_sweep_closes_a_set_whose_last_block_was_removed_before_a_crash(
    runner: JobRunner, faults: Faults
) -> None:
    step = open_two_sets(runner)
    crash_before_the_set_closes(runner, faults, step)
    runner.post("/v1/jobs/orders/t1:kill", {"stepName": "giant"})
    runner.cloud.run_until(lambda: runner.job()["state"] == "FAILED", 20)
    counts = runner.job()["steps"][0]["counts"]
    assert counts == {"SUCCESS": 16_384, "KILLED": 1}


def test_a_wide_phase_starts_after_all_steps_of_the_previous_one(runner: JobRunner) -> None:
    runner.define(
        *[{"stepName": f"a{n}"} for n in range(12)], *[{"stepName": f"b{n}", "phase": 1} for n in range(12)]
    )
    runner.submit()
    assert runner.run(timeout=50)["state"] == "SUCCESS"
    first = {lease.step_name[0] for lease in runner.leased[:12]}
    assert first == {"a"}
    assert runner.row(12).waiting == set()
    assert runner.row(12).create_time
