"""The rows of the table as immutable values; times are milliseconds since 1970.

Rows may come from a cache that threads and requests share, so they are never changed in place: `evolve` makes
a copy with other values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from shardmill.model.blocks import two_levels
from shardmill.model.definition.step_settings import StepSettings
from shardmill.model.groups.lanes import LaneTable
from shardmill.model.states import JobState, StepState
from shardmill.store.codec import to_json
from shardmill.store.row_mapping import Row, json_field

if TYPE_CHECKING:
    from shardmill.model.definition.fields import StepDefine


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
    request: Mapping[str, Any] = json_field()
    params: Mapping[str, Any] = json_field()
    info: Mapping[str, Any] = json_field()
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
    has_token: bool = False  # a data token was given with it
    event_pending: bool = False
    heirs_pending: bool = False
    notifying: Mapping[str, str] = json_field()  # how far its dependents were notified, if not all
    owed: bool = False  # it changed before its success was passed on to all children
    groups: AbstractSet[str] = field(default_factory=frozenset)
    bound: Mapping[str, list[str]] | None = json_field(lambda: None)  # the groups of its step types then
    concurrency: int | None = None
    unique: str = ""
    schedule_id: str = ""
    timezone: str = ""
    after: str = ""
    replaces: str = ""
    backfill: int = 0
    renews: bool = False
    expected: Sequence[dict[str, Any]] = json_field(list)
    unmet: bool = False
    first_missing: Mapping[str, int] = json_field()
    with_dependents: bool = False
    rerun_with: str = ""
    counted: AbstractSet[str] = field(default_factory=frozenset)  # only in rows of earlier releases
    expires: int | None = None
    not_before: int | None = None
    redo: Mapping[str, Any] = json_field()
    planning: bool = False
    files_pending: bool = False  # not all submitted files are copied yet
    changes: Mapping[str, Any] = json_field()
    unapplied: bool = False
    retention_days: int | None = None
    delete_at: int | None = None  # when it is deleted, if it has ended by then
    purge: bool = False
    ending: bool = False
    parked: bool = False
    let_finish: bool = False
    deadline: int | None = None
    deadline_seconds: int | None = None
    deadline_time: str = ""
    on_deadline: str = ""
    late: bool = False
    counted_tasks: int | None = None  # of a live job that counts against the limits of its application
    counted_bytes: int | None = None
    notify: AbstractSet[str] = field(default_factory=frozenset)
    history: Sequence[str] = field(default_factory=tuple)

    @property
    def submitted_files(self) -> dict[str, dict[str, Any]]:
        """The files submitted with this job, by name; an upload's id ends with its checksum."""
        return {
            file["name"]: {"size": file["size"], "sha256": file["upload"].partition("-")[2]}
            for file in self.request.get("files", [])
        }

    @property
    def moment(self) -> int:
        """The time that dependencies refer to: the dataTime, else the second of creation."""
        return self.data_time if self.data_time is not None else self.create_time // 1000 * 1000


class StepRow(Row):
    """A step, or a gate: a node without tasks that separates phases and ends the job."""

    job_id: str
    run: int
    index: int
    name: str
    state: StepState
    job_name: str
    trigger: str
    create_time: int
    kind: str = "step"
    spec: Mapping[str, Any] = json_field()
    context: Mapping[str, Any] = json_field()
    waiting: AbstractSet[str] = field(default_factory=frozenset)
    down: Sequence[int] = field(default_factory=tuple)
    loose: Sequence[int] = field(default_factory=tuple)
    ignored: bool = False
    root: bool = False
    spoiled: bool = False
    counted: bool = False  # the job's `counted_tasks` has its tasks, which were not known at the submit
    unwanted: bool = False
    gen: int = 1
    resend: bool = False
    total: int = 0
    window: int = 0
    uneven: bool = False
    open: AbstractSet[str] = field(default_factory=frozenset)
    priority: int = 1
    groups: Sequence[str] = field(default_factory=tuple)
    sent_to: Sequence[str] = field(default_factory=tuple)
    sent_time: int = 0
    active_time: int = 0
    checked_time: int = 0
    checks: int = 0
    token: str = ""
    stopping: bool = False
    ending: bool = False
    end_cursor: str = ""
    kill: bool = False
    kept_from: int = 0
    attempts_before: int = 0
    let_finish: bool = False
    swept: int = 0  # set by the state machine to 1, in earlier releases to true
    failed_blocks: Mapping[str, int] = field(default_factory=dict)
    success: int = 0
    failed: int = 0
    killed: int = 0
    compute_ms: int = 0
    update_time: int = 0
    queued_time: int | None = None
    started_time: int | None = None
    completed_time: int | None = None
    notes: str = ""
    last_failed: str = ""
    longest: int | None = None
    history: Sequence[str] = field(default_factory=tuple)

    @property
    def key(self) -> tuple[str, int, int]:
        return self.job_id, self.run, self.index

    @property
    def home(self) -> StepRow:
        """This step in the run that holds its tasks: an earlier run, if a rerun kept the step."""
        return self.of_run(self.kept_from) if self.kept_from else self

    def of_run(self, run: int) -> StepRow:
        return self.evolve(run=run)

    @cached_property
    def settings(self) -> StepSettings:
        """The settings that the engine reads most often, parsed once for each row."""
        return StepSettings.of(self.spec)

    @cached_property
    def define(self) -> StepDefine:
        """All settings of the step, parsed once for each row."""
        from shardmill.model.definition.fields import StepDefine  # its models take long to build

        return StepDefine.model_validate(self.spec)

    @property
    def context_text(self) -> str:
        return to_json(self.context)

    @property
    def two_levels(self) -> bool:
        return two_levels(self.total)

    @property
    def opened(self) -> bool:
        """Whether its tasks may be leased."""
        return self.state in (StepState.READY, StepState.RUNNING)

    @property
    def in_progress(self) -> bool:
        """Whether its tasks are known and it has not ended; it may be suspended."""
        return self.opened or self.state is StepState.SUSPENDED

    @property
    def end_interrupted(self) -> bool:
        """Whether it was ended on request and its tasks have not been ended yet."""
        return self.ending and self.state.ended and self.total > 0


class WorkerRow(Row):
    id: str
    name: str
    session: int
    registration: Mapping[str, Any] = json_field()
    groups: Sequence[str] = field(default_factory=tuple)
    bound: Mapping[str, Sequence[int]] = json_field()  # when it joined and last registered with a group
    source_ip: str = ""
    profile: Mapping[str, Any] = json_field()  # the description that a client of the AWE protocol sends
    receipts: Mapping[str, str] = json_field()  # of the tasks that such a client holds, by their ids
    owner: str = ""  # who registered it; empty for a worker that uses AWS directly
    owner_token: str = ""
    seen: int = 0
    create_time: int = 0
    work: AbstractSet[str] = field(default_factory=frozenset)
    running: AbstractSet[str] = field(default_factory=frozenset)  # the others of `work` wait for a slot
    progress: Mapping[str, Any] = json_field()
    followed: AbstractSet[str] = field(default_factory=frozenset)
    followed_until: int = 0
    last_busy: int = 0
    offline: bool = False
    drain: bool = False
    suspended: bool = False
    tired: str = ""
    notes: str = ""
    skip: AbstractSet[str] = field(default_factory=frozenset)
    failures: int = 0
    failing: AbstractSet[str] = field(default_factory=frozenset)
    failing_since: int = 0  # when the first of its failures since its last success was recorded
    succeeded_time: int = 0
    checkout: int = 0
    completed: int = 0
    failed: int = 0
    compute_ms: int = 0

    @property
    def reference(self) -> str:
        """The reference to this worker's present session in a block."""
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


class GroupRow(Row):
    name: str
    kind: str
    lease_seconds: int
    queues: Sequence[str]
    generation: int
    create_time: int
    update_time: int
    types: Sequence[str] = field(default_factory=tuple)
    bound: Mapping[str, Sequence[int]] = json_field()  # when its types were bound and last saved
    suspended: str = ""
    lanes: Mapping[str, Sequence[int]] = json_field()
    lanes_checked: int = 0
    order_queues: Sequence[str] = field(default_factory=tuple)
    """In the group `lambda`: the queues with copies of the messages, one for each priority in use."""
    mixed_since: int = 0
    """When the group began to have several priorities in use, in milliseconds."""

    @cached_property
    def lane_table(self) -> LaneTable:
        return LaneTable.of(self.lanes, len(self.lane_queues))

    @property
    def lane_queues(self) -> Sequence[str]:
        """The queues of the lanes, in the numbering of the lane table."""
        return self.order_queues if self.kind == "lambda" else self.queues


class ScheduleRow(Row):
    job_name: str
    id: str
    version: int
    create_time: int
    update_time: int
    update_user: str
    document: Mapping[str, Any] = json_field()
    status: int = 1
    next: int | None = None
    on_since: int = 0
    rev: int = 0
    last_job: str = ""
    awaits: str = ""
    fired: int = 0
    history: Sequence[dict[str, Any]] = json_field(list)
    deleted: bool = False
    counted_in: str = ""  # the application against whose limits it counts

    @property
    def key(self) -> tuple[str, str]:
        return self.job_name, self.id
