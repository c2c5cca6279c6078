"""Jobs with their steps, tasks and attempts."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, computed_field

from shardmill.model.base import Answer, Request, Time
from shardmill.model.definition.command import MaskedCommand
from shardmill.model.definition.field_types import StepType
from shardmill.model.definition.fields import Info
from shardmill.model.files import Partition, RunFile
from shardmill.model.states import JobState, StepState, TaskState
from shardmill.model.transfers import Stored

# Table-driven schedulers identify the states of a task by numbers; a suspended one is waiting (1).
_NUMBERS = {
    TaskState.WAITING: 1,
    TaskState.SUSPENDED: 1,
    TaskState.READY: 2,
    TaskState.RUNNING: 3,
    TaskState.SUCCESS: 4,
    TaskState.FAILED: 5,
    TaskState.KILLED: 6,
}


class Sharding(Answer):
    total: int
    index: int


class PackRange(Answer):
    """The inclusive range of a task of a PACK step."""

    start: int
    end: int


class TaskProgress(Request):
    """The progress that a running task reports."""

    percent: float | None = Field(default=None, ge=0, le=100)
    message: str | None = Field(default=None, max_length=200)


class Attempt(Answer):
    """One attempt at a task; `outcome` is empty while it runs."""

    attempt: int
    worker: str | None = None
    start_time: Time | None = None
    end_time: Time | None = None
    exit_code: int | None = None
    reason: str | None = Field(
        default=None,
        description="failed, lost, timed-out, rejected, discarded or returned; absent for a success",
    )
    message: str | None = Field(default=None, description="the message of the worker, such as an exit code")
    outcome: str | None = None
    stdout: str | None = None
    stderr: str | None = None


class Task(Answer):
    """One shard of a step; `rank` counts from 0, `sharding.index` from the step's startShardId."""

    id: str
    job_id: str
    job_name: str
    trigger: str
    step_name: str
    rank: int
    sharding: Sharding
    pack: PackRange | None = None
    state: TaskState
    attempt: int = 0
    attempts: list[Attempt] = Field(default_factory=list)
    failed: int = 0
    params: dict[str, Any] = Field(default_factory=dict)
    command: MaskedCommand | None = None
    inputs: list[RunFile] = Field(default_factory=list)
    outputs: list[RunFile] = Field(default_factory=list)
    predata: list[RunFile] = Field(default_factory=list)
    info: Info | None = None
    worker: str | None = None
    exit_code: int | None = None
    reason: str | None = None
    message: str | None = None
    stdout: str | None = None
    stderr: str | None = None
    progress: TaskProgress | None = Field(
        default=None, description="the progress that a running task reports"
    )
    output: Any = Field(default=None, description="the output for later steps")
    files: list[Stored] = Field(default_factory=list, description="the output files that it stored")
    submit_user: str | None = None
    execute_user: str | None = None
    data_time: Time | None = None
    create_time: Time
    update_time: Time | None = None
    checkout_time: Time | None = None
    execute_time: Time | None = None
    completed_time: Time | None = None
    compute_time: float = Field(default=0, description="seconds")

    @computed_field  # type: ignore[prop-decorator]
    @property
    def status(self) -> int:
        """The number of the state: 1 waiting, 2 ready, 3 running, 4 success, 5 failed, 6 killed."""
        return _NUMBERS[self.state]


class Step(Answer):
    """A step of a job."""

    id: str
    step_name: str
    index: int
    state: StepState
    type: StepType = "noop"
    step_type: Literal["SHARD", "PACK"] = "SHARD"
    phase: int = 0
    can_fail: bool = False
    dependent_steps: list[str] = Field(default_factory=list)
    done_steps: list[str] = Field(default_factory=list)
    counts: dict[TaskState, int] = Field(default_factory=dict)
    task_states: dict[str, TaskState] = Field(
        default_factory=dict,
        description="index to state, in the answer to GET of a step that has at most 1000 tasks",
    )
    tasks_known: bool = Field(
        default=True,
        description="false if the number of tasks depends on other steps and is not known yet",
    )
    total_work: int = 0
    remain_work: int = 0
    params: dict[str, Any] = Field(default_factory=dict)
    command: MaskedCommand | None = None
    inputs: list[RunFile] = Field(default_factory=list)
    outputs: list[RunFile] = Field(default_factory=list)
    predata: list[RunFile] = Field(default_factory=list)
    partition: Partition | None = None
    info: Info | None = None
    worker_groups: list[str] = Field(default_factory=list)
    priority: int = 1
    create_time: Time | None = Field(default=None, description="when its run was planned")
    update_time: Time | None = None
    queued_time: Time | None = Field(default=None, description="when its tasks were first queued")
    started_time: Time | None = None
    completed_time: Time | None = None
    compute_time: float = Field(default=0, description="seconds, of all tasks together")
    notes: str = ""
    last_failed: str | None = None


class DependencyStatus(Answer):
    """One run that a Job expects of a parent, and whether it is there."""

    job_name: str
    trigger: str
    pre_job: str
    pre_trigger: str | None = None
    pre_id: str | None = None
    pre_state: str | None = None
    pre_status: Literal[0, 1] = Field(description="0 not done, 1 done")
    data_time: Time | None = Field(default=None, description="of the parent's run")
    strategy: str
    met: bool = Field(default=False, description="whether the whole dependency is met by its strategy")
    update_time: Time


class Transition(Answer):
    """A Job, or one of its steps, moved to a state."""

    time: Time
    run: int
    step_name: str | None = Field(default=None, description="absent for the job itself")
    state: str
    actor: str
    reason: str = ""


class Job(Answer):
    """A job: one run of a definition, identified by jobName and trigger."""

    id: str
    jid: int
    job_name: str
    trigger: str
    run: int = 1
    state: JobState
    definition_version: int
    params: dict[str, Any] = Field(default_factory=dict)
    steps: list[Step] = Field(
        default_factory=list,
        description="empty in lists; if the answer would exceed 5 MB, without params, command and files",
    )
    remain_tasks: int | None = Field(
        default=None,
        description="steps that are not done, also after a failure or a suspension; null in lists",
    )
    waiting_for: list[str] = Field(
        default_factory=list,
        description="what the job waits for, in sentences; in lists only for jobs that are WAITING",
    )
    info: Info = Field(default_factory=Info)
    app_name: str | None = None
    worker_groups: list[str] = Field(default_factory=list)
    priority: int = 1
    submit_user: str
    execute_user: str | None = None
    schedule_id: str | None = Field(default=None, description="the schedule that started it")
    data_time: Time | None = None
    create_time: Time
    update_time: Time
    started_time: Time | None = None
    completed_time: Time | None = None
    after: Time | None = Field(default=None, description="the time before which it does not start")
    deadline: Time | None = None
    late: bool = Field(default=False, description="whether it did not end by its deadline")
    notes: str = ""
    last_failed: str | None = None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def registered(self) -> bool:
        """Whether the job has not ended."""
        return not self.state.ended


class Explanation(Answer):
    """Why a job has not ended, or how it ended."""

    job_name: str
    trigger: str
    state: JobState
    sentences: list[str]


def last_lines(stderr: str | None, stdout: str | None, most: int) -> tuple[str, list[str]]:
    """Return the last lines of stderr, or of stdout if stderr has none, after the name of that stream."""
    stream, text = ("stderr", stderr) if (stderr or "").strip() else ("stdout", stdout)
    return stream, (text or "").strip().splitlines()[-most:]
