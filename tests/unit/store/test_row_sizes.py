"""The bounds of all lists and sets of a row together leave it below the 400 KB of an item."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pkgutil import walk_packages
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from pydantic import ValidationError

from shardmill import store
from shardmill.engine.access.tokens import MAX_PREVIOUS
from shardmill.engine.awe.checkout import MAX_UNITS
from shardmill.engine.control.change import MAX_CHANGES_BYTES, MAX_GROUPS_BYTES
from shardmill.engine.groups.totals import _MAX_SKIPS
from shardmill.engine.jobs import runnable
from shardmill.engine.nodes.work_outputs import MAX_ATTRIBUTES_BYTES
from shardmill.engine.running.open_step import MAX_STEP_BYTES
from shardmill.engine.tasks.work_item import Receipt
from shardmill.engine.workers.registry import MAX_PROGRESS_BYTES
from shardmill.model.access.token import MAX_SCOPES_BYTES
from shardmill.model.blocks import SET_SIZE, Shard
from shardmill.model.control.requests import Rerun
from shardmill.model.definition.field_types import StepType
from shardmill.model.definition.fields import MAX_GROUPS, MAX_STEPS, JobDefine
from shardmill.model.groups.lanes import MAX_LANES
from shardmill.model.states import JobState, StepState, TaskState
from shardmill.model.worker import (
    MAX_APPS_BYTES,
    MAX_EXCHANGED,
    MAX_HELD,
    MAX_RUNNING,
    Registration,
    output_size,
)
from shardmill.store import keys
from shardmill.store.access.tokens import TokenRow
from shardmill.store.awe.nodes import NodeRow
from shardmill.store.child_starts import ChildStartRow
from shardmill.store.codec import encode_item
from shardmill.store.history import MAX_HISTORY_BYTES
from shardmill.store.row_mapping import Row
from shardmill.store.rows import GroupRow, JobRow, StepRow, WorkerRow
from shardmill.store.slots import Holder
from shardmill.store.workers import MAX_FAILING, MAX_FOLLOWED
from support.aws_rules.items import item_bytes
from support.aws_rules.limits import MAX_ITEM_BYTES
from support.paths import PROJECT

UUID = "00000000-0000-4000-8000-000000000000"
NOTES = "\N{SNOWMAN}" * 2_000
NAMES = [f"g{number:063d}" for number in range(MAX_GROUPS)]
MAX_DEPENDENCIES = 40
MAX_HANDLE = 1_024
"""No limit is documented for receipt handles; they have about 400 characters."""
TASKS = [f"{UUID}_{number:04d}_999999" for number in range(MAX_HELD)]


def size(row: Row) -> int:
    return item_bytes(encode_item({**keys.job(UUID), **row.to_item()}))


def job_row(**fields: Any) -> JobRow:
    return JobRow(UUID, 1, "x" * 64, "t" * 64, 1, JobState.RUNNING, "h" * 64, 10**12, 10**12, **fields)


def test_the_estimate_of_a_row_is_its_size() -> None:
    row = job_row(request={"params": {"p": "x" * 10_000}}, groups=set(NAMES), history=["e" * 500] * 9)
    assert 0.9 * size(row) < row.stored_bytes < 1.3 * size(row)


def test_a_job_with_all_its_bounds_reached_fits() -> None:
    new = job_row(request={"params": "x" * (runnable.MAX_ROW_BYTES - 1_100)})
    assert new.stored_bytes <= runnable.MAX_ROW_BYTES
    [most_shards] = Rerun.model_fields["shards"].metadata
    ranks = list(range(1_000_000 - most_shards.max_length, 1_000_000))
    row = new.evolve(
        notifying={"to": f"child:{'x' * 64}", "failed": f"waiting:{'9' * 15}#{UUID}#039"},
        first_missing={str(number): 10**12 for number in range(MAX_DEPENDENCIES)},
        redo={"0": ranks} | {str(step): "failed" for step in range(1, MAX_STEPS)},
        changes={"": "x" * MAX_CHANGES_BYTES},
        groups={f"g{number:063d}" for number in range(MAX_GROUPS_BYTES // 64)},
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


def worker_row(**fields: Any) -> WorkerRow:
    app = "\N{SNOWMAN}" * 100
    count = MAX_APPS_BYTES // (output_size(app) + 1)
    registration = Registration(name="w" * 256, groups=NAMES, apps=[app] * count, slots=MAX_RUNNING)
    return WorkerRow(
        "id",
        "w" * 256,
        1,
        registration=registration.model_dump(),
        groups=NAMES,
        bound=dict.fromkeys(NAMES, (10**12, 10**12)),
        progress={"p": "x" * MAX_PROGRESS_BYTES},
        skip={f"{UUID}_{number}_1" for number in range(_MAX_SKIPS + MAX_EXCHANGED)},
        failing={f"{UUID}_{number}_1.1" for number in range(2 * MAX_FAILING)},
        notes=NOTES,
        **fields,
    )


def test_a_worker_with_all_its_bounds_reached_fits() -> None:
    row = worker_row(work=set(TASKS), running=set(TASKS[:MAX_RUNNING]), followed=set(TASKS[:MAX_FOLLOWED]))
    assert size(row) < MAX_ITEM_BYTES


def test_a_client_of_the_awe_protocol_with_all_its_bounds_reached_fits() -> None:
    queue = f"https://sqs.eu-central-1.amazonaws.com/{'1' * 12}/{'q' * 80}"
    receipt = Receipt(9_999, queue, "h" * MAX_HANDLE, Shard(TaskState.RUNNING, worker="w.9", time=10**12), 99)
    held = TASKS[:MAX_UNITS]
    profile = {"name": "\N{SNOWMAN}" * 256, "group": "g" * 64}
    row = worker_row(
        work=set(held), running=set(held), receipts=dict.fromkeys(held, receipt.encode()), profile=profile
    )
    assert size(row) < MAX_ITEM_BYTES


def test_programs_of_a_worker_that_would_not_fit_are_rejected() -> None:
    with pytest.raises(ValidationError, match="has more than 50000 bytes"):
        Registration(name="w", groups=["g"], apps=["\N{SNOWMAN}" * 256] * 100)


def test_a_group_with_all_its_bounds_reached_fits() -> None:
    queues = [
        f"https://sqs.eu-central-1.amazonaws.com/{'1' * 12}/{number:080d}" for number in range(MAX_LANES)
    ]
    types = list(get_args(StepType))
    lanes = {str(-(10**9) - number): (number, 10**12) for number in range(MAX_LANES)}
    bound = dict.fromkeys(types, (10**12, 10**12))
    row = GroupRow("g" * 64, "pull", 1, queues, 1, 1, 1, types, bound, NOTES, lanes)
    assert size(row) < MAX_ITEM_BYTES // 10


def test_a_token_with_all_its_bounds_reached_fits() -> None:
    previous = [("h" * 64, 10**12)] * MAX_PREVIOUS
    scopes = ["x" * MAX_SCOPES_BYTES]
    row = TokenRow("i" * 64, "n" * 64, "o" * 64, "h" * 64, 1, "u" * 64, scopes=scopes, previous=previous)
    assert size(row) < MAX_ITEM_BYTES // 10


def test_a_node_with_all_its_bounds_reached_fits() -> None:
    kinds = ("line", "record", "bytes")
    indexes = {kind: {"units": 10**12, "time": 10**12} for kind in kinds}
    attributes = "x" * MAX_ATTRIBUTES_BYTES
    row = NodeRow(UUID, "o" * 64, 1, file_name="\N{SNOWMAN}" * 300, attributes=attributes, indexes=indexes)
    assert size(row) < MAX_ITEM_BYTES // 2


def test_the_next_start_of_a_child_fits() -> None:
    parents = [f"p{number:063d}" for number in range(MAX_DEPENDENCIES)]
    jobs = {name: [10**12, UUID] for name in parents}
    start = {"id": UUID, "dataTime": 1, "parents": dict.fromkeys(parents, 10**12)}
    row = ChildStartRow("c" * 64, 1, jobs, start | {"jobs": dict.fromkeys(parents, UUID)})
    assert size(row) < MAX_ITEM_BYTES // 10


BOUNDS = {
    "JobRow.request": "request, parameters, `info`, groups, expected runs",
    "JobRow.params": "request, parameters, `info`, groups, expected runs",
    "JobRow.info": "request, parameters, `info`, groups, expected runs",
    "JobRow.groups": "request, parameters, `info`, groups, expected runs",
    "JobRow.expected": "request, parameters, `info`, groups, expected runs",
    "JobRow.notify": "kinds of notifications",
    "JobRow.first_missing": "first missing run of each dependency",
    "JobRow.notifying": "how far its dependents were notified",
    "JobRow.counted": "children that counted its success",
    "JobRow.redo": "tasks to run again",
    "JobRow.changes": "changes of single steps",
    "JobRow.history": "`history`",
    "StepRow.spec": "settings and files of the job",
    "StepRow.context": "settings, values of other steps and items",
    "StepRow.waiting": "upstream and downstream steps",
    "StepRow.down": "upstream and downstream steps",
    "StepRow.loose": "upstream and downstream steps",
    "StepRow.open": "open blocks, or open sets of blocks; failures of each",
    "StepRow.failed_blocks": "open blocks, or open sets of blocks; failures of each",
    "StepRow.groups": "worker groups",
    "StepRow.sent_to": "worker groups",
    "StepRow.history": "`history`",
    "WorkerRow.registration": "groups; programs; their names together",
    "WorkerRow.groups": "groups; programs; their names together",
    "WorkerRow.bound": "groups; programs; their names together",
    "WorkerRow.work": "tasks that it holds",
    "WorkerRow.running": "tasks that it runs",
    "WorkerRow.followed": "tasks whose logs are followed",
    "WorkerRow.progress": "progress of its tasks",
    "WorkerRow.skip": "tasks that it failed and leaves to others",
    "WorkerRow.failing": "tasks of its present series of failures",
    "WorkerRow.profile": "name and group of its profile",
    "WorkerRow.receipts": "workunits that it holds",
    "GroupRow.queues": "priorities in use at a time",
    "GroupRow.lanes": "priorities in use at a time",
    "GroupRow.order_queues": "queues that keep the order of a Lambda group",
    "GroupRow.types": "step types bound to it",
    "GroupRow.bound": "step types bound to it",
    "ScheduleRow.document": "document; history; `times`; `maxTimes`",
    "ScheduleRow.history": "document; history; `times`; `maxTimes`",
    "BackfillRow.times": "times; running jobs",
    "BackfillRow.running": "times; running jobs",
    "TokenRow.scopes": "scopes; earlier secrets",
    "TokenRow.previous": "scopes; earlier secrets",
    "NodeRow.attributes": "attributes; indexes",
    "NodeRow.indexes": "attributes; indexes",
    "ChildStartRow.succeeded": "parents that have succeeded since its last start",
    "ChildStartRow.starting": "parents that have succeeded since its last start",
    "Listed.parents": "dependencies",
    "Listed.groups": "worker groups",
}
"""Each list, set and map of a row, and its words in the table of docs/reference.md."""


def subclasses(kind: type) -> Iterator[type]:
    for each in kind.__subclasses__():
        yield each
        yield from subclasses(each)


def test_every_list_set_and_map_of_a_row_is_named_with_its_bound() -> None:
    for module in walk_packages(store.__path__, "shardmill.store."):
        importlib.import_module(module.name)
    kinds = [kind for kind in subclasses(Row) if kind.__module__.startswith("shardmill.")]
    collections = (Mapping, Sequence, AbstractSet)
    found = {
        f"{kind.__name__}.{name}"
        for kind in kinds
        for name, hint in get_type_hints(kind).items()
        if hint is Any or get_origin(hint) in collections
    }
    assert found == BOUNDS.keys()
    [_, table] = (PROJECT / "docs/reference.md").read_text().split("### Sizes of rows")
    assert [words for words in BOUNDS.values() if words not in table] == []


def test_the_holders_of_a_line_fit() -> None:
    [_, most] = JobDefine.model_fields["concurrency"].metadata
    members = {keys.run_reference(*Holder(f"{number:036d}", 1_000)) for number in range(most.le)}
    assert item_bytes({"jobs": {"SS": sorted(members)}}) < MAX_ITEM_BYTES
