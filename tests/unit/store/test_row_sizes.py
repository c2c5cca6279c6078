"""The bounds of all lists and sets of a row together leave it below the 400 KB of an item."""

from __future__ import annotations

from typing import Any

from shardmill.api.control import Rerun
from shardmill.engine.control.change import MAX_CHANGES_BYTES
from shardmill.engine.groups.totals import _MAX_SKIPS
from shardmill.engine.jobs import runnable
from shardmill.engine.running.open_step import MAX_STEP_BYTES
from shardmill.engine.workers.registry import MAX_PROGRESS_BYTES
from shardmill.model.blocks import SET_SIZE
from shardmill.model.definition.fields import MAX_GROUPS, MAX_STEPS, JobDefine
from shardmill.model.states import JobState, StepState
from shardmill.model.worker import MAX_HELD, Registration
from shardmill.store import keys
from shardmill.store.codec import encode_item
from shardmill.store.history import MAX_HISTORY_BYTES
from shardmill.store.row_mapping import Row
from shardmill.store.rows import JobRow, StepRow, WorkerRow
from shardmill.store.slots import Holder
from shardmill.store.workers import MAX_FAILING
from support.aws_rules.items import item_bytes
from support.aws_rules.limits import MAX_ITEM_BYTES

UUID = "00000000-0000-4000-8000-000000000000"
NOTES = "\N{SNOWMAN}" * 2_000
NAMES = [f"g{number:063d}" for number in range(MAX_GROUPS)]
TASKS = [f"{UUID}_{number:04d}_999999" for number in range(MAX_HELD)]


def size(row: Row) -> int:
    return item_bytes(encode_item({**keys.job(UUID), **row.to_item()}))


def job_row(**fields: Any) -> JobRow:
    return JobRow(UUID, 1, "x" * 64, "t" * 64, 1, JobState.RUNNING, "h" * 64, 10**12, 10**12, **fields)


def test_the_estimate_of_a_row_is_its_size() -> None:
    row = job_row(request={"params": {"p": "x" * 10_000}}, groups=set(NAMES), history=["e" * 500] * 9)
    assert 0.9 * size(row) < row.stored_bytes < 1.3 * size(row)


def test_a_job_with_all_its_bounds_reached_fits() -> None:
    new = job_row(request={"params": "x" * (runnable.MAX_ROW_BYTES - 1_000)})
    assert new.stored_bytes <= runnable.MAX_ROW_BYTES
    [most_shards] = Rerun.model_fields["shards"].metadata
    ranks = list(range(1_000_000 - most_shards.max_length, 1_000_000))
    row = new.evolve(
        redo={"0": ranks} | {str(step): "failed" for step in range(1, MAX_STEPS)},
        changes={"": "x" * MAX_CHANGES_BYTES},
        history=["x" * 500] * (MAX_HISTORY_BYTES // 500),
        notes=NOTES,
        last_failed=TASKS[0],
    )
    assert size(row) < MAX_ITEM_BYTES


def test_a_step_with_all_its_bounds_reached_fits() -> None:
    row = StepRow(
        UUID,
        1,
        1,
        "s" * 64,
        StepState.RUNNING,
        "x" * 64,
        "t" * 64,
        10**12,
        context={"items": "x" * MAX_STEP_BYTES},
        waiting={str(step) for step in range(MAX_STEPS)},
        down=list(range(MAX_STEPS + 2)),
        open={str(block) for block in range(SET_SIZE)},
        failed_blocks={str(block): 64 for block in range(SET_SIZE)},
        groups=NAMES,
        sent_to=NAMES,
        token="t" * 2_048,
        notes=NOTES,
        last_failed=TASKS[0],
        history=["x" * 500] * (MAX_HISTORY_BYTES // 500),
    )
    assert size(row) < MAX_ITEM_BYTES


def test_a_worker_with_all_its_bounds_reached_fits() -> None:
    registration = Registration(
        name="w" * 256, groups=NAMES, apps=[f"{number:0256d}" for number in range(200)], slots=1_000
    )
    row = WorkerRow(
        "id",
        "w" * 256,
        1,
        registration=registration.model_dump(),
        groups=NAMES,
        work=set(TASKS),
        followed=set(TASKS),
        progress={"p": "x" * MAX_PROGRESS_BYTES},
        skip={f"{UUID}_{number}_1" for number in range(_MAX_SKIPS + 10)},
        failing={f"{UUID}_{number}_1.1" for number in range(2 * MAX_FAILING)},
        notes=NOTES,
    )
    assert size(row) < MAX_ITEM_BYTES


def test_the_holders_of_a_line_fit() -> None:
    [_, most] = JobDefine.model_fields["concurrency"].metadata
    members = {keys.run_reference(*Holder(f"{number:036d}", 1_000)) for number in range(most.le)}
    assert item_bytes({"jobs": {"SS": sorted(members)}}) < MAX_ITEM_BYTES
