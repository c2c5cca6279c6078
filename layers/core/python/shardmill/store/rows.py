"""The rows that the engine works on, as Python values; times are milliseconds since 1970."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any, Self, cast, get_type_hints

from shardmill.model.blocks import two_levels
from shardmill.model.states import JobState, StepState
from shardmill.store.codec import to_json

_JSON = "json"


def json_field(empty: Callable[[], Any] = dict) -> Any:
    """A value that is kept as JSON text: DynamoDB need not know its inside."""
    return field(default_factory=empty, metadata={_JSON: True})


@cache
def _plan(row: Any) -> list[tuple[str, bool, Any]]:
    hints = get_type_hints(row)
    return [(f.name, _JSON in f.metadata, hints[f.name]) for f in fields(row)]


class Row:
    """A dataclass that is kept as one item, attribute by attribute."""

    @classmethod
    def from_item(cls, item: dict[str, Any]) -> Self:
        values: dict[str, Any] = {}
        for name, is_json, hint in _plan(cast(Hashable, cls)):
            if name not in item:
                continue
            value = item[name]
            if is_json:
                value = json.loads(value)
            elif isinstance(hint, type) and not isinstance(value, hint):
                value = hint(value)
            values[name] = value
        return cls(**values)

    def to_item(self) -> dict[str, Any]:
        item: dict[str, Any] = {}
        for name, is_json, _ in _plan(cast(Hashable, type(self))):
            value = getattr(self, name)
            if is_json:
                item[name] = to_json(value)
            elif value is not None and value != set() and value != "":
                item[name] = str(value) if isinstance(value, str) else value
        return item


@dataclass(slots=True)
class JobRow(Row):
    id: str
    jid: int
    job_name: str
    trigger: str
    version: int
    state: JobState
    request_hash: str
    create_time: int
    update_time: int
    run: int = 1
    request: dict[str, Any] = json_field()
    params: dict[str, Any] = json_field()
    info: dict[str, Any] = json_field()
    priority: int = 1
    on_failure: str = "fail"
    app_name: str = ""
    submit_user: str = ""
    execute_user: str = ""
    data_time: int | None = None
    started_time: int | None = None
    completed_time: int | None = None
    notes: str = ""
    last_failed: str = ""
    event_pending: bool = False
    heirs_pending: bool = False
    groups: set[str] = field(default_factory=set)
    concurrency: int | None = None
    schedule_id: str = ""
    timezone: str = ""
    after: str = ""
    replaces: str = ""
    backfill: int = 0
    expected: list[dict[str, Any]] = json_field(list)
    unmet: bool = False
    expires: int | None = None
    redo: dict[str, Any] = json_field()
    changes: dict[str, Any] = json_field()
    unapplied: bool = False
    retention_days: int | None = None
    purge: bool = False
    parked: bool = False
    let_finish: bool = False
    deadline: int | None = None
    deadline_seconds: int | None = None
    deadline_time: str = ""
    on_deadline: str = ""
    late: bool = False
    notify: set[str] = field(default_factory=set)
    history: list[str] = field(default_factory=list)

    @property
    def given(self) -> dict[str, dict[str, Any]]:
        """The files that came with this Job, by their names; an upload's id ends with its checksum."""
        return {
            file["name"]: {"size": file["size"], "sha256": file["upload"].partition("-")[2]}
            for file in self.request.get("files", [])
        }

    @property
    def moment(self) -> int:
        """The time that others know this Job by: its dataTime, else the second in which it was made."""
        return self.data_time if self.data_time is not None else self.create_time // 1000 * 1000


@dataclass(slots=True)
class StepRow(Row):
    """A Step, or a gate: a node without tasks that orders phases and ends the Job."""

    job_id: str
    run: int
    index: int
    name: str
    state: StepState
    job_name: str
    trigger: str
    create_time: int
    kind: str = "step"
    spec: dict[str, Any] = json_field()
    context: dict[str, Any] = json_field()
    waiting: set[str] = field(default_factory=set)
    down: list[int] = field(default_factory=list)
    root: bool = False
    spoiled: bool = False
    unwanted: bool = False
    gen: int = 1
    resend: bool = False
    total: int = 0
    window: int = 0
    uneven: bool = False
    open: set[str] = field(default_factory=set)
    priority: int = 1
    groups: list[str] = field(default_factory=list)
    sent_to: list[str] = field(default_factory=list)
    token: str = ""
    stopping: bool = False
    kill: bool = False
    kept_from: int = 0
    let_finish: bool = False
    swept: bool = False
    failed_blocks: dict[str, int] = field(default_factory=dict)
    success: int = 0
    failed: int = 0
    killed: int = 0
    compute_ms: int = 0
    update_time: int = 0
    started_time: int | None = None
    completed_time: int | None = None
    notes: str = ""
    last_failed: str = ""
    longest: int | None = None
    history: list[str] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, int, int]:
        return self.job_id, self.run, self.index

    @property
    def home(self) -> StepRow:
        """This step in the run that its tasks lie in: an earlier one, if a rerun kept it."""
        return self.of_run(self.kept_from) if self.kept_from else self

    def of_run(self, run: int) -> StepRow:
        return replace(self, run=run)

    @property
    def context_text(self) -> str:
        return to_json(self.context)

    @property
    def spoils(self) -> bool:
        """Whether what depends on it must not run, because something failed."""
        skipped = self.state is StepState.SKIPPED
        return self.kind == "step" and (self.spoiled if skipped else not self.state.lets_dependents_run)

    @property
    def not_wanted(self) -> bool:
        """Whether its own condition, or that of a step before it, was false."""
        return self.state is StepState.SKIPPED and not self.spoiled

    @property
    def skipped_by_others(self) -> bool:
        return self.spoiled or (self.unwanted and not self.spec.get("runIfSkipped"))

    @property
    def two_levels(self) -> bool:
        return two_levels(self.total)

    @property
    def opened(self) -> bool:
        """Whether its tasks may be leased."""
        return self.state in (StepState.READY, StepState.RUNNING)

    @property
    def begun(self) -> bool:
        """Whether its tasks are settled and it has not ended; suspended or not."""
        return self.opened or self.state is StepState.SUSPENDED


@dataclass(slots=True)
class WorkerRow(Row):
    id: str
    name: str
    session: int
    registration: dict[str, Any] = json_field()
    groups: list[str] = field(default_factory=list)
    seen: int = 0
    create_time: int = 0
    work: set[str] = field(default_factory=set)
    progress: dict[str, Any] = json_field()
    followed: set[str] = field(default_factory=set)
    followed_until: int = 0
    last_busy: int = 0
    offline: bool = False
    drain: bool = False
    suspended: bool = False
    tired: str = ""
    notes: str = ""
    skip: set[str] = field(default_factory=set)
    failures: int = 0
    checkout: int = 0
    completed: int = 0
    failed: int = 0
    compute_ms: int = 0

    @property
    def reference(self) -> str:
        """How a block names this worker's present session."""
        return f"{self.id}.{self.session}"

    @property
    def apps(self) -> list[str]:
        return list(self.registration.get("apps", ["*"]))

    @property
    def slots(self) -> int:
        return int(self.registration.get("slots", 1))

    @property
    def takes_tasks(self) -> bool:
        return not (self.offline or self.drain or self.suspended or self.tired)


@dataclass(slots=True)
class GroupRow(Row):
    name: str
    kind: str
    lease_seconds: int
    queues: list[str]
    generation: int
    create_time: int
    update_time: int
    types: list[str] = field(default_factory=list)
    giants: set[str] = field(default_factory=set)
    suspended: str = ""


@dataclass(slots=True)
class ScheduleRow(Row):
    job_name: str
    id: str
    version: int
    create_time: int
    update_time: int
    update_user: str
    document: dict[str, Any] = json_field()
    status: int = 1
    next: int | None = None
    rev: int = 0
    last_job: str = ""
    history: list[dict[str, Any]] = json_field(list)
    deleted: bool = False

    @property
    def key(self) -> tuple[str, str]:
        return self.job_name, self.id


@dataclass(slots=True)
class BackfillRow(Row):
    job_name: str
    schedule_id: str
    number: int
    state: str
    create_time: int
    update_time: int
    user: str
    times: list[int] = json_field(list)
    parallel: int = 1
    force: bool = False
    at: int = 0
    rev: int = 0
    running: list[str] = field(default_factory=list)
    success: int = 0
    failed: int = 0
    skipped: int = 0
    notes: str = ""


FAILED_TASKS = "failed"
"""Instead of ranks: the tasks of a step that have not succeeded."""


ALL_TASKS = "all"
