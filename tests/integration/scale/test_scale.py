"""The numbers of docs/scale.md, read from the meter, and costs per unit at growing sizes."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from unittest.mock import patch

import pytest

from shardmill.aws.machines import Machines
from shardmill.engine import repair
from shardmill.engine.running import concurrency
from shardmill.engine.tasks import fair_share
from shardmill.model.states import JobState, StepState
from shardmill.store import group_keys, indexes, keys
from shardmill.store.due.watches import bitmap
from shardmill.store.rows import JobRow, StepRow
from shardmill.store.slots import Holder
from shardmill.store.table import Table
from support.aws_rules.faults import Faults
from support.aws_rules.meter import Meter
from support.paths import PROJECT
from support.scenarios.job_runner import JobRunner

HALF_A_PARTITION = 500
HOUR = 3_600_000
DAY = 86_400_000
SIZES = (10, 100, 1_000)


@dataclass(frozen=True)
class Units:
    """A row of the table "Jobs per second"."""

    per_job: int
    spread: int | None
    jobs_per_second: int | None


def _documented() -> dict[str, Units]:
    text = (PROJECT / "docs" / "scale.md").read_text()
    table = text[text.index("<!-- units:begin -->") : text.index("<!-- units:end -->")]
    rows = re.findall(r"^\| `([^`]+)` \| [^|]+ \| (\d+) \| (\w+) \| ([\d,]+|-)", table, re.MULTILINE)
    return {
        partition: Units(
            int(units),
            int(spread) if spread.isdigit() else None,
            None if rate == "-" else int(rate.replace(",", "")),
        )
        for partition, units, spread, rate in rows
    }


def _kind(partition: str) -> str:
    """A partition without the part that differs between jobs: dk=due#3 is dk=due, pk=JOB#… is pk=JOB#."""
    attribute, _, value = partition.partition("=")
    if attribute == "nk":
        return "nk="
    name, mark, _ = value.partition("#")
    return f"{attribute}={name}{mark if attribute == 'pk' else ''}"


def test_a_job_writes_the_documented_units_to_each_partition(runner: JobRunner) -> None:
    runner.define({"stepName": "a"})
    with Faults(weigh=True) as faults:
        runner.submit()
        runner.cloud.run_until(lambda: runner.row(0).token)  # a task may end before its execution waits
        runner.run()
        runner.cloud.deliver_job_ends()
        measured: Counter[str] = Counter()
        for partition, units in faults.meter.partition_units.items():
            measured[_kind(partition)] += units
    assert measured == {partition: units.per_job for partition, units in _documented().items()}


def test_the_documented_rates_follow_from_the_units() -> None:
    for partition, units in _documented().items():
        if units.jobs_per_second is not None:
            assert units.jobs_per_second == HALF_A_PARTITION * (units.spread or 1) // units.per_job, partition


def test_a_thousand_jobs_a_second_use_at_most_half_of_each_partition_that_definitions_share() -> None:
    shared = {partition: units for partition, units in _documented().items() if (units.spread or 0) > 1}
    assert {"dk=due", "lk=job", "tk=INIT", "tk=SUCCESS"} <= set(shared)
    for partition, units in shared.items():
        assert units.jobs_per_second is not None
        assert units.jobs_per_second >= 1_000, partition


def test_jobs_are_spread_evenly() -> None:
    documented = _documented()
    ids = [f"{number:08x}-5b7a-4eae-8cbb-22781a5d041d" for number in range(8_000)]
    for partition, of_job in {
        "dk=due": lambda job_id: indexes.due_job(job_id, 1)["dk"],
        "lk=job": lambda job_id: indexes.listed_job(job_id, 1, "orders")["lk"],
        "tk=INIT": lambda job_id: indexes.job_state(job_id, "INIT")["tk"],
    }.items():
        found = Counter(map(of_job, ids))
        assert len(found) == documented[partition].spread
        assert max(found.values()) < 1.2 * len(ids) / len(found)


def _hour_without_turn(now: int) -> int:
    """The time, or an hour later: once in twelve hours a look also checks the messages of the step."""
    return now + HOUR if now // HOUR % 12 == 0 else now


def _quiet_jobs(runner: JobRunner, count: int, now: int, steps: int = 3) -> None:
    """Write rows of Jobs that have been quiet for a day: one open step, and others that wait for it."""
    items = []
    for number in range(count):
        job_id = f"{count:08d}-0000-4000-8000-{number:012d}"
        job = JobRow(
            job_id, number, "orders", f"t{number}", 1, JobState.RUNNING, "hash", now - DAY, now - DAY
        )
        items.append({**keys.job(job_id), **job.to_item()})
        known = {"run": 1, "open": bitmap([0]), "changed": now - DAY}
        items.append({**keys.watch(job_id), **known, **indexes.due_job(job_id, now)})
        for index in range(steps):
            state = StepState.WAITING if index else StepState.READY
            step = StepRow(job_id, 1, index, f"s{index}", state, "orders", f"t{number}", now - DAY)
            step = step.evolve(
                update_time=now - DAY,
                checked_time=now - 60_000,
                waiting={"0"} if index else frozenset(),
                groups=["default"],
                total=1,
                window=1,
                open=frozenset() if index else {"0"},
                token="" if index else "token",
            )
            items.append({**keys.step(job_id, 1, index), **step.to_item()})
    Table(runner.cloud.clients.dynamodb, runner.cloud.table).batch_put(items)


@pytest.mark.timeout(600)
def test_a_look_costs_the_same_however_many_jobs_are_quiet(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Machines, "status", lambda *_: "RUNNING")
    group = runner.mill.groups.get("default")
    assert group is not None
    for queue in group.queues:
        runner.cloud.clients.sqs.send_message(QueueUrl=queue, MessageBody="{}", DelaySeconds=900)
    costs: list[Cost] = []
    for number, size in enumerate(SIZES):
        now = _hour_without_turn(runner.worker.clock()) + number * 1_000
        _quiet_jobs(runner, size, now)
        with Faults(weigh=True) as faults:
            due = runner.mill.watches.due(now + 1, limit=repair.MAX_PER_TICK)
            assert len(due) == size
            faults.meter.reset()
            for at in range(0, size, repair.CHUNK):
                chunk = due[at : at + repair.CHUNK]
                result = repair.repair_all(runner.mill, chunk, now + 1, lambda: "id")
                assert result == {"looked": len(chunk), "failed": 0}
            costs.append(_cost(faults.meter, size))
    _check_growth("a look at a quiet job", SIZES, costs)


@pytest.mark.timeout(600)
def test_checking_a_waiting_job_costs_the_same_however_many_wait(runner: JobRunner, faults: Faults) -> None:
    table = Table(runner.cloud.clients.dynamodb, runner.cloud.table)
    now, sizes, costs = runner.worker.clock(), (1, 100, 1_000), []
    faults.meter.weigh = True
    for size in sizes:
        line = f"line{size}"
        waiting = [_waiting_job(line, number, now) for number in range(1, size + 1)]
        running = _waiting_job(line, 0, now).evolve(state=JobState.RUNNING)
        items = [{**keys.job(job.id), **job.to_item()} for job in [running, *waiting]]
        items += [{**keys.slot_waiter(line, job.jid), "id": job.id, "run": job.run} for job in waiting]
        table.batch_put(items)
        assert runner.mill.slots.take(line, Holder(running.id, running.run), most=1)
        faults.meter.reset()
        for job in (waiting[0], waiting[-1]):
            concurrency.recheck(runner.mill, job, now)
        costs.append(_cost(faults.meter, 2))
    _check_growth("a check of a waiting job", sizes, costs)


def _waiting_job(line: str, number: int, now: int) -> JobRow:
    job_id = f"{number:08d}-0000-4000-8000-{len(line):012d}"
    job = JobRow(job_id, number, line, f"t{number}", 1, JobState.WAITING, "hash", now, now)
    return job.evolve(concurrency=1, notes=f"waits for a free slot: the concurrency of {line} is 1")


@pytest.mark.timeout(600)
def test_opening_a_step_costs_the_same_however_many_large_steps_are_open(
    runner: JobRunner, faults: Faults
) -> None:
    table = Table(runner.cloud.clients.dynamodb, runner.cloud.table)
    runner.define({"stepName": "a"})
    runner.submit()
    runner.cloud.run_until(lambda: runner.row(0).token)
    step, now, sizes, costs = runner.row(0), runner.worker.clock(), (100, 1_000, 10_000), []
    group = runner.mill.groups.get("default")
    faults.meter.weigh = True
    for size in sizes:
        table.batch_put([group_keys.giant("default", (f"{number:05d}", 1, 0)) for number in range(size)])
        faults.meter.reset()
        with patch.object(runner.mill.groups, "remove_giant"):  # the steps do not exist
            fair_share.make_room(runner.mill, step, now)
        costs.append(_cost(faults.meter, 1))
    _check_growth("opening a step beside large ones", sizes, costs)
    assert runner.mill.groups.get("default") == group


Cost = dict[str, float]


def _cost(meter: Meter, units: int) -> Cost:
    return {
        "calls": meter.total_calls / units,
        "reads": meter.total_read_units / units,
        "writes": meter.total_write_units / units,
    }


def _check_growth(subject: str, sizes: Sequence[int], costs: Sequence[Cost]) -> None:
    """The costs per unit do not grow, and are at most those of docs/scale.md, which are close."""
    documented_sizes, most = _documented_growth()[subject]
    assert documented_sizes == list(sizes)
    for smaller, larger in pairwise(costs):
        assert all(larger[name] <= smaller[name] * 1.05 for name in larger), costs
    for name, limit in most.items():
        assert limit - 1 < max(cost[name] for cost in costs) <= limit, (name, costs)


def _documented_growth() -> dict[str, tuple[list[int], Cost]]:
    """Of the table of growing sizes: by subject the sizes, and calls, read and write units per unit."""
    text = (PROJECT / "docs" / "scale.md").read_text()
    table = text[text.index("<!-- growth:begin -->") : text.index("<!-- growth:end -->")]
    rows = re.findall(r"^\| ([^|]+) \| ([\d,; ]+) [^|]*\| (\d+) \| (\d+) \| (\d+) \|$", table, re.MULTILINE)
    return {
        subject: (
            [int(size.replace(",", "")) for size in sizes.split("; ")],
            {"calls": int(calls), "reads": int(reads), "writes": int(writes)},
        )
        for subject, sizes, calls, reads, writes in rows
    }
