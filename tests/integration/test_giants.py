"""The largest jobs: a million shards, wide phases. Rows, sets and messages, not the running."""

from shardmill.engine.tasks import completion
from shardmill.model.blocks import SET_SIZE, Block, Shard, block_size
from shardmill.model.states import TaskState
from support.faults import Faults
from support.play import Play

MILLION = 1_000_000


def test_a_million_shards_open_in_a_few_rows(play: Play, faults: Faults) -> None:
    play.define({"stepName": "giant", "sharding": MILLION, "maxTaskCount": 10, "toleratedFailures": "100%"})
    play.submit()
    play.cloud.run_until(lambda: play.job()["steps"] and play.row(0).token, 30)
    step = play.row(0)
    assert (step.total, len(step.open)) == (MILLION, 62)
    assert len(play.mill.shards.open_blocks_of_set(step, 0)) == SET_SIZE
    assert len(play.mill.shards.open_blocks_of_set(step, 61)) == 15_625 - 61 * SET_SIZE
    play.hands.report(play.take(10))
    assert sorted(lease.sharding.index for lease in play.hands.take()) == list(range(10, 20))
    counts = play.job()["steps"][0]["counts"]
    assert counts == {"SUCCESS": 10, "RUNNING": 10, "READY": MILLION - 20}
    last = play.task("giant", MILLION - 1)
    assert (last["state"], last["sharding"]) == ("READY", {"total": MILLION, "index": MILLION - 1})
    page = play.cloud.http("GET", "/v1/jobs/play/t1/steps/giant/tasks?state=RUNNING&limit=10").json
    assert [task["rank"] for task in page["items"]] == list(range(10, 20))


def test_a_set_that_empties_is_struck_off_the_step_once(play: Play) -> None:
    play.define({"stepName": "giant", "sharding": 16_385, "maxTaskCount": 1})
    play.submit()
    play.cloud.run_until(lambda: play.job()["steps"] and play.row(0).token, 30)
    step = play.row(0)
    assert len(step.open) == 2
    done = Shard(TaskState.SUCCESS, attempt=1, worker="w.1", time=1, span=2)
    for _ in range(2):  # every block reports twice, as after a crash
        for number in range(257):
            size = block_size(step.total, number)
            completion.close_block(play.mill, step, Block(number, size, dict.fromkeys(range(size), done)))
    closed = play.row(0)
    assert closed.open == set()
    assert (closed.success, closed.compute_ms) == (16_385, 2 * 16_385)
    play.cloud.run_until(lambda: play.job()["state"] == "SUCCESS", 20)


def test_a_wide_phase_meets_in_one_gate(play: Play) -> None:
    play.define(
        *[{"stepName": f"a{n}"} for n in range(12)], *[{"stepName": f"b{n}", "phase": 1} for n in range(12)]
    )
    play.submit()
    assert play.run(timeout=50)["state"] == "SUCCESS"
    first = {lease.step_name[0] for lease in play.leased[:12]}
    assert first == {"a"}
    assert play.row(12).waiting == set()
    assert play.row(12).create_time
