"""Workers, their groups, and the messages between workers and Shardmill."""

from __future__ import annotations

import ipaddress
import json
from enum import IntEnum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from shardmill.model.base import Answer, Count, Name, Request, Time, Trigger
from shardmill.model.definition.command import Command
from shardmill.model.definition.field_types import Content, StepType
from shardmill.model.groups.addresses import MAX_RECEIVED, LaneAddresses, ReceivedMessage, Tag
from shardmill.model.job import PackRange, Sharding, TaskProgress
from shardmill.model.states import TaskState
from shardmill.model.transfers import MAX_STORED, Stored

MAX_BATCH = 10
MAX_EXCHANGED = 50
"""Maximum tasks in a lease or report of a worker that waits at SQS, which can exceed a batch."""
MAX_HELD = 2_000
MAX_RUNNING = 1_000
MAX_APPS_BYTES = 50_000
MAX_WAIT_SECONDS = 20
MAX_OUTPUT_BYTES = 65_536
REPORT_STATUSES = ("ok", "already", "stale-attempt", "foreign-attempt", "wrong-group", "unknown-task")

Outcome = Literal["success", "failed", "failed-permanent", "rejected"]
Text = Annotated[str, Field(max_length=256)]


def _address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise PydanticCustomError("bad-value", "must be an IPv4 or IPv6 address") from None


Address = Annotated[
    str,
    AfterValidator(_address),
    Field(json_schema_extra={"anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]}),
]


def _fitting(apps: list[str]) -> list[str]:
    if output_size(apps) > MAX_APPS_BYTES:
        raise PydanticCustomError("too-large", f"has more than {MAX_APPS_BYTES} bytes; use *")
    return apps


def output_size(output: object) -> int:
    """The size of a task's output or another value in bytes, as it is stored."""
    return len(json.dumps(output, ensure_ascii=False, separators=(",", ":")).encode())


class WorkerStatus(IntEnum):
    OFFLINE = 0
    DRAINING = 1
    DISCONNECTED = 2
    ONLINE = 3


class Registration(Request):
    """The registration of a worker; `apps` are the commands that it can run, `*` for any."""

    name: Text = Field(min_length=1, pattern=r"^[^\x00-\x1f\x7f]+$")
    groups: list[Name] = Field(min_length=1, max_length=100)
    host: Text = ""
    ip: Address | None = None
    port: int = Field(default=0, ge=0, le=65_535)
    cores: int = Field(default=1, ge=1, le=100_000)
    apps: Annotated[list[Text], AfterValidator(_fitting)] = Field(
        default_factory=lambda: ["*"], max_length=200
    )
    slots: int = Field(default=1, ge=1, le=MAX_RUNNING)
    user: Text | None = None
    domain: Text | None = None
    instance_id: Text | None = None
    instance_type: Text | None = None
    proxy: bool = False
    subclients: int = Field(default=0, ge=0, le=100_000)


class GroupBinding(Answer):
    """A group that a worker is in."""

    group: str
    create_time: Time = Field(description="when the worker joined the group")
    update_time: Time = Field(description="when the worker last registered with it")


class Worker(Answer):
    id: str
    name: str
    groups: list[str]
    bindings: list[GroupBinding] = Field(default_factory=list, description="when it joined each group")
    host: str = ""
    ip: str | None = Field(default=None, description="as the worker registered it, or else its sourceIp")
    source_ip: str | None = Field(
        default=None, description="where its last request came from; absent for a worker that uses AWS"
    )
    owner: str | None = Field(
        default=None, description="the owner of the token that registered it; absent if it uses AWS directly"
    )
    port: int = 0
    status: WorkerStatus = WorkerStatus.ONLINE
    activity: Literal["idle", "busy", "suspended"] = "idle"
    user: str | None = None
    domain: str | None = None
    instance_id: str | None = None
    instance_type: str | None = None
    cores: int = 1
    apps: list[str] = Field(default_factory=lambda: ["*"])
    slots: int = 1
    session: int
    notes: str = Field(default="", description="who suspended or drained it, and why")
    heartbeat_seconds: int
    create_time: Time
    update_time: Time
    serve_time: int = Field(
        default=0, description="seconds since it first registered, until now or until it was last seen"
    )
    idle_time: int = Field(default=0, description="seconds since it last held a task")
    remain_tasks: int = Field(default=0, description="tasks it holds")
    total_checkout: int = 0
    total_completed: int = 0
    total_failed: int = 0
    compute_time: float = Field(default=0, description="seconds")
    current_work: list[str] = Field(
        default_factory=list, description="the tasks that it runs; others that it holds wait for a slot"
    )
    skip_work: list[str] = Field(default_factory=list)
    proxy: bool = False
    subclients: int = 0


class RegisteredWorker(Worker):
    lanes: LaneAddresses | None = Field(
        default=None, description="where it waits for tasks; absent if it must wait in POST /v1/work:lease"
    )


WorkerId = Annotated[str, Field(max_length=64)]  # a key of DynamoDB has at most 2,048 bytes


class HeldTask(Request):
    task_id: str
    attempt: Count
    run: Count | None = None
    waiting: bool | None = Field(default=None, description="leased ahead: it waits for a slot")
    progress: TaskProgress | None = None


class Heartbeat(Request):
    session: Count
    work: list[HeldTask] = Field(default_factory=list, max_length=MAX_HELD)
    offline: bool = Field(
        default=False, description="the worker takes no more tasks and leaves when it holds none"
    )
    lanes: Tag | None = Field(
        default=None, description="the tag of its addresses, to get new ones in time; empty if it has none"
    )


class HeartbeatAnswer(Answer):
    """Instructions for a worker.

    `drop`: tasks to abort, because their lease ended or their job was stopped. `followed`: tasks whose log to
    upload while they run. `suspended`: lease no tasks until this changes. `drain`: lease no tasks, finish
    those that are held, and exit.
    """

    drop: list[str] = Field(default_factory=list)
    followed: list[str] = Field(default_factory=list)
    status: WorkerStatus
    suspended: bool = False
    notes: str | None = Field(default=None, description="why it is suspended, and what to do")
    drain: bool = False
    heartbeat_seconds: int
    lanes: LaneAddresses | None = Field(default=None, description="new addresses, to use from now on")


class LeaseRequest(Request):
    """`messages`: the messages that the worker received at SQS; without them, Shardmill waits for messages.

    Messages that lead to no lease become visible to other workers again, all of them if `max` is 0.
    """

    worker_id: WorkerId
    session: Count | None = None
    max: int = Field(default=MAX_BATCH, ge=0, le=MAX_RECEIVED)
    wait_seconds: int = Field(default=0, ge=0, le=MAX_WAIT_SECONDS)
    messages: list[ReceivedMessage] | None = Field(default=None, max_length=MAX_RECEIVED)
    lanes: Tag | None = Field(default=None, description="the tag of its addresses")


class Lease(Answer):
    """A task to run; `environ` is its whole environment, and `receipt` must be returned with the result."""

    task_id: str
    attempt: int
    receipt: str
    job_name: Name
    trigger: Trigger
    job_id: str
    run: int
    step_name: Name
    sharding: Sharding
    pack: PackRange | None = None
    type: StepType
    content: Content = None
    command: Command | None = None
    params: dict[str, Any] = Field(default_factory=dict)
    environ: dict[str, str] = Field(default_factory=dict, repr=False)
    timeout_seconds: int | None = None
    execute_user: str | None = None
    lease_seconds: int
    data_time: Time | None = None
    prepare: bool = Field(
        default=False, description="the task has files or secrets, to be requested before it runs"
    )
    retried: bool = Field(
        default=False, description="an earlier attempt may have left a checkpoint, to be requested"
    )
    fault: str | None = Field(
        default=None, description="why it cannot run; to be reported as the reason of its failure"
    )


class LeaseAnswer(Answer):
    items: list[Lease]
    paused: list[str] = Field(
        default_factory=list, description="queues to leave to other workers for a moment"
    )
    lanes: LaneAddresses | None = Field(default=None, description="new addresses, to use from now on")


class Result(Request):
    """The result of an attempt; the last 4 KB of stdout and stderr are stored."""

    task_id: str
    attempt: Count
    outcome: Outcome
    receipt: str | None = None
    exit_code: int | None = Field(default=None, ge=-(2**31), le=2**32)
    reason: str | None = Field(default=None, max_length=1_000)
    stdout: str | None = None
    stderr: str | None = None
    output: Any = Field(default=None, description="output for later steps: JSON of at most 64 KB")
    files: list[Stored] | None = Field(
        default=None, max_length=MAX_STORED, description="the output files that it stored"
    )
    start_time: Time | None = None
    end_time: Time | None = None
    compute_seconds: float | None = Field(
        default=None, ge=0, le=10**9, description="how long the task ran; default: the time since its lease"
    )


class NextLease(Request):
    """The tasks that a worker leases together with its report, of the messages that it received."""

    session: Count | None = None
    max: int = Field(default=MAX_BATCH, ge=0, le=MAX_RECEIVED)
    messages: list[ReceivedMessage] = Field(min_length=1, max_length=MAX_RECEIVED)
    lanes: Tag | None = Field(default=None, description="the tag of its addresses")


class ReportRequest(Request):
    worker_id: WorkerId
    results: list[Result] = Field(min_length=1, max_length=MAX_RECEIVED)
    lease: NextLease | None = None


class HandedBack(Request):
    """A task that a worker returns, so that another worker can lease it immediately."""

    task_id: str
    attempt: Count
    receipt: str
    reason: str = Field(default="", max_length=200, description="why, for the list of the task's attempts")


class HandBackRequest(Request):
    worker_id: WorkerId
    tasks: list[HandedBack] = Field(min_length=1, max_length=1000)


class HandBackAnswer(Answer):
    """The ids of the tasks that were returned; the worker did not hold the others."""

    items: list[str]


class Reported(Answer):
    """The status of a result; only `ok` and `already` mean that it was accepted."""

    task_id: str
    attempt: int
    status: str = Field(json_schema_extra={"enum": [*REPORT_STATUSES]})
    state: TaskState | None = None


class LeaseRefusal(Answer):
    """Why no task was leased: the problem that POST /v1/work:lease would return."""

    code: str
    detail: str


class ReportAnswer(Answer):
    """`lease` answers the request of the same name, unless `refused` says why there is none."""

    items: list[Reported]
    lease: LeaseAnswer | None = None
    refused: LeaseRefusal | None = None
