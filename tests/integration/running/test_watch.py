"""Watching live Jobs: what a look at a quiet Job reads and writes, and when it comes."""

from dataclasses import dataclass
from itertools import pairwise

import pytest

from shardmill.engine import repair
from shardmill.model.cost.prices import PRICES
from shardmill.store.rows import JobRow
from support.aws_rules.faults import Faults
from support.scenarios.job_runner import JobRunner

LOOKS_A_MONTH = 30 * 24
LOOKS = 12
LOOK_GB_SECONDS = 0.5 * 0.02  # 512 MB for 20 ms, more than the calls of a look take


@dataclass(frozen=True)
class Cost:
    """What a look costs: units of the Job's own rows, and calls that the Jobs of a tick share."""

    read_units: float
    write_units: float
    shared_calls: int

    @property
    def usd_a_month(self) -> float:
        own = {
            "DynamoDB read units": self.read_units,
            "DynamoDB write units": self.write_units,
            "Lambda GB-seconds": LOOK_GB_SECONDS,
            "EventBridge events": 1 / repair.CHUNK,
        }
        return LOOKS_A_MONTH * sum(PRICES[name].usd_per_million * units / 1e6 for name, units in own.items())


def _open_job(runner: JobRunner, steps: int = 1, waiting: int = 0, trigger: str = "t1") -> JobRow:
    """Submit a Job with open steps and others that wait for them."""
    runner.define(
        *({"stepName": f"s{number}"} for number in range(steps)),
        *({"stepName": f"w{number}", "dependentStep": "s0"} for number in range(waiting)),
    )
    runner.submit(trigger)
    job = runner.mill.jobs.find("orders", trigger)
    assert job is not None
    runner.cloud.run_until(lambda: _waiting_executions(runner, job) == steps, 60)
    return job


def _waiting_executions(runner: JobRunner, job: JobRow) -> int:
    return sum(bool(step.token) for step in runner.mill.jobs.steps(job.id, job.run))


def _tick_until_quiet(runner: JobRunner) -> float:
    """Tick until the Jobs have been quiet for hours; return the time of the next look in minutes."""
    minutes = 2.0
    while minutes < 480:
        runner.tick(minutes)
        minutes = minutes * 2 if minutes < 60 else minutes + 61
    return minutes


def _cost(runner: JobRunner, jobs: int = 1) -> Cost:
    """The mean cost of a look at each of the Jobs, above that of a tick without a due Job."""
    minutes = _tick_until_quiet(runner)
    with Faults(weigh=True) as faults:
        runner.tick(minutes - 59)
        idle = LOOKS * faults.meter.total_read_units
        faults.meter.reset()
        for look in range(LOOKS):
            assert runner.tick(minutes + 61 * look)["looked"] == jobs
        meter = faults.meter
        shared = meter.calls["dynamodb.GetItem"]
        reads = meter.total_read_units - idle - meter.read_units["GetItem"]
        looks = jobs * LOOKS
        return Cost(reads / looks, meter.total_write_units / looks, shared // LOOKS)


@pytest.mark.parametrize(("steps", "waiting"), [(1, 0), (1, 60), (6, 0), (40, 0)])
def test_a_quiet_job_costs_at_most_a_fifth_of_a_cent_a_month(
    runner: JobRunner, steps: int, waiting: int
) -> None:
    _open_job(runner, steps, waiting)
    assert _cost(runner).usd_a_month < 0.002


def test_jobs_that_are_due_together_share_the_reads_of_their_group(runner: JobRunner) -> None:
    for number in range(6):
        _open_job(runner, trigger=f"t{number}")
    cost = _cost(runner, jobs=6)
    assert cost.shared_calls <= 3
    assert cost.usd_a_month < 0.002


def test_the_time_between_looks_grows_with_the_quiet_to_an_hour(runner: JobRunner) -> None:
    job = _open_job(runner)
    minutes, between = 1.1, []
    for _ in range(12):
        assert runner.tick(minutes)["looked"] == 1
        due = runner.mill.watches.rows([job.id])[1][job.id].da
        later = (due - runner.worker.clock()) / 60_000 + 0.1
        between.append(later - minutes)
        minutes = later
    assert between[0] < 2
    assert all(next_ > before - 0.5 for before, next_ in pairwise(between))
    assert [round(each) for each in between[-3:]] == [60, 60, 60]


def test_each_open_step_of_a_quiet_job_is_checked_in_turn(runner: JobRunner) -> None:
    job = _open_job(runner, 12)
    minutes = _tick_until_quiet(runner)
    [execution] = [e for e in runner.cloud.executions("step") if e["name"] == f"{job.id}-r1-s11"]
    runner.cloud.clients.stepfunctions.stop_execution(executionArn=execution["executionArn"])
    for look in range(4):
        runner.tick(minutes + 61 * look)
    assert runner.states()["s11"] == "FAILED"


def test_a_change_makes_the_next_look_soon(runner: JobRunner) -> None:
    _open_job(runner)
    minutes = _tick_until_quiet(runner)
    runner.later((minutes - 5) * 60)
    runner.take(1)
    assert runner.tick(minutes)["looked"] == 1
    assert runner.tick(minutes + 7)["looked"] == 1


def test_a_look_follows_the_steps_that_an_ended_one_released(runner: JobRunner, faults: Faults) -> None:
    job = _open_job(runner, 2, waiting=2)
    runner.worker.report([lease for lease in runner.take(2) if lease.step_name == "s1"])
    runner.cloud.run_until(lambda: runner.states()["s1"] == "SUCCESS")
    runner.tick(2)
    assert _watched(runner, job) == [0]
    runner.worker.report([lease for lease in runner.leased if lease.step_name == "s0"])
    runner.cloud.run_until(lambda: runner.states()["w0"] == runner.states()["w1"] == "READY")
    faults.calls.clear()
    runner.tick(6)
    assert _watched(runner, job) == [2, 3]
    assert not [call for call in faults.calls if "JOB#" in str(call.params.get("ExpressionAttributeValues"))]


def _watched(runner: JobRunner, job: JobRow) -> list[int]:
    return runner.mill.watches.rows([job.id])[1][job.id].open_steps


def test_the_tick_passes_on_jobs_beyond_its_first_chunk(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repair, "CHUNK", 2)
    runner.define({"stepName": "a"})
    with Faults() as faults:
        faults.fail("stepfunctions", "StartExecution", how="before", times=5)
        for number in range(5):
            runner.submit(f"t{number}")
    result = runner.tick(2)
    assert (result["looked"], result["passedOn"]) == (2, 3)
    assert runner.cloud.deliver_due_jobs() == [2, 1]
    for number in range(5):
        assert runner.run(trigger=f"t{number}")["state"] == "SUCCESS"


def test_the_first_chunk_is_repaired_even_if_the_others_cannot_be_passed_on(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repair, "CHUNK", 2)
    runner.define({"stepName": "a"})
    with Faults() as faults:
        faults.fail("stepfunctions", "StartExecution", how="before", times=4)
        for number in range(4):
            runner.submit(f"t{number}")
        faults.fail("events", "PutEvents", how="before")
        result = runner.tick(2)
    assert (result["looked"], result["passedOn"]) == (2, 0)
    assert runner.tick(4)["looked"] == 2


def test_a_failed_look_is_repeated_by_the_next_tick(runner: JobRunner, faults: Faults) -> None:
    _open_job(runner)
    minutes = _tick_until_quiet(runner)
    faults.fail("stepfunctions", "DescribeExecution", how="before")
    assert runner.tick(minutes)["failed"] == 1
    assert runner.tick(minutes + 2)["looked"] == 1


def test_an_ended_job_is_not_watched(runner: JobRunner) -> None:
    job = _open_job(runner)
    runner.tick(2)
    assert job.id in runner.mill.watches.rows([job.id])[1]
    runner.run()
    runner.cloud.deliver_job_ends()
    runner.tick(200)
    assert runner.mill.watches.rows([job.id])[1] == {}
    assert runner.mill.watches.due(runner.worker.clock() + 10**10, limit=10) == []


def test_a_job_that_is_due_in_both_rows_is_watched_once_more(runner: JobRunner, faults: Faults) -> None:
    """The process ends between the writes that begin a watch."""
    _open_job(runner)
    faults.fail("dynamodb", "UpdateItem", how="before")
    assert runner.tick(2)["failed"] == 1
    assert len(runner.mill.watches.due(runner.worker.clock() + 10**10, limit=10)) == 2
    runner.tick(4)
    assert [due.watch for due in runner.mill.watches.due(runner.worker.clock() + 10**10, limit=10)] == [True]
