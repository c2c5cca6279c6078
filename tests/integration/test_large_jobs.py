"""Very large Jobs: rows, sets and messages of a million shards and wide phases."""

from shardmill.engine.tasks import completion
from shardmill.model.blocks import SET_SIZE, Block, Shard, block_size
from shardmill.model.states import TaskState
from support.aws_rules.faults import Faults
from support.scenarios.job_runner import JobRunner

MILLION = 1_000_000


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
    runner.define({"stepName": "giant", "sharding": 16_385, "maxTaskCount": 1})
    runner.submit()
    runner.cloud.run_until(lambda: runner.job()["steps"] and runner.row(0).token, 30)
    step = runner.row(0)
    assert len(step.open) == 2
    done = Shard(TaskState.SUCCESS, attempt=1, worker="w.1", time=1, span=2)
    for _ in range(2):  # every block is closed twice, as after a crash
        for number in range(257):
            size = block_size(step.total, number)
            completion.close_block(runner.mill, step, Block(number, size, dict.fromkeys(range(size), done)))
    closed = runner.row(0)
    assert closed.open == set()
    assert (closed.success, closed.compute_ms) == (16_385, 2 * 16_385)
    runner.cloud.run_until(lambda: runner.job()["state"] == "SUCCESS", 20)


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
