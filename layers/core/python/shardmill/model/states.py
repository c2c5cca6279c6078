"""The states of jobs, steps and tasks, the legal transitions between them, and the notified transitions."""

from enum import StrEnum
from typing import Literal

Occasion = Literal["failure", "suspension", "lateness", "success"]
"""When the receivers of a definition are notified."""


class JobState(StrEnum):
    INIT = "INIT"
    WAITING = "WAITING"
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    KILLED = "KILLED"
    DELETED = "DELETED"

    @property
    def ended(self) -> bool:
        return self in _JOB_ENDS


class StepState(StrEnum):
    WAITING = "WAITING"
    READY = "READY"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    TOLERATED = "TOLERATED"
    SKIPPED = "SKIPPED"
    KILLED = "KILLED"

    @property
    def ended(self) -> bool:
        return self in _STEP_ENDS

    @property
    def lets_dependents_run(self) -> bool:
        return self in (StepState.SUCCESS, StepState.TOLERATED)


class TaskState(StrEnum):
    WAITING = "WAITING"
    """Its step has not been opened. This state is only shown: a task is stored when it is leased."""
    READY = "READY"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    KILLED = "KILLED"

    @property
    def ended(self) -> bool:
        return self in _TASK_ENDS


_JOB_ENDS = frozenset({JobState.SUCCESS, JobState.FAILED, JobState.KILLED, JobState.DELETED})
_STEP_ENDS = frozenset(
    {StepState.SUCCESS, StepState.FAILED, StepState.TOLERATED, StepState.SKIPPED, StepState.KILLED}
)
_TASK_ENDS = frozenset({TaskState.SUCCESS, TaskState.FAILED, TaskState.KILLED})

JOB_MOVES: dict[JobState, frozenset[JobState]] = {
    JobState.INIT: frozenset(
        {
            JobState.WAITING,
            JobState.QUEUED,
            JobState.SUSPENDED,
            JobState.SUCCESS,
            JobState.FAILED,
            JobState.KILLED,
        }
    ),
    JobState.WAITING: frozenset(
        {
            JobState.WAITING,
            JobState.QUEUED,
            JobState.SUSPENDED,
            JobState.SUCCESS,
            JobState.FAILED,
            JobState.KILLED,
        }
    ),
    JobState.QUEUED: frozenset(
        {JobState.RUNNING, JobState.SUSPENDED, JobState.SUCCESS, JobState.FAILED, JobState.KILLED}
    ),
    JobState.RUNNING: frozenset({JobState.SUSPENDED, JobState.SUCCESS, JobState.FAILED, JobState.KILLED}),
    JobState.SUSPENDED: frozenset(
        {
            JobState.INIT,
            JobState.WAITING,
            JobState.QUEUED,
            JobState.RUNNING,
            JobState.SUCCESS,
            JobState.FAILED,
            JobState.KILLED,
        }
    ),
    JobState.SUCCESS: frozenset({JobState.INIT, JobState.FAILED, JobState.DELETED}),
    JobState.FAILED: frozenset({JobState.INIT, JobState.SUCCESS, JobState.DELETED}),
    JobState.KILLED: frozenset({JobState.INIT, JobState.SUCCESS, JobState.FAILED, JobState.DELETED}),
    JobState.DELETED: frozenset(),
}

STEP_MOVES: dict[StepState, frozenset[StepState]] = {
    StepState.WAITING: frozenset(
        {
            StepState.READY,
            StepState.SUSPENDED,
            StepState.SUCCESS,
            StepState.SKIPPED,
            StepState.FAILED,
            StepState.TOLERATED,
            StepState.KILLED,
        }
    ),
    StepState.READY: frozenset(
        {
            StepState.RUNNING,
            StepState.SUSPENDED,
            StepState.SUCCESS,
            StepState.FAILED,
            StepState.TOLERATED,
            StepState.KILLED,
        }
    ),
    StepState.RUNNING: frozenset(
        {StepState.SUSPENDED, StepState.SUCCESS, StepState.FAILED, StepState.TOLERATED, StepState.KILLED}
    ),
    StepState.SUSPENDED: frozenset(
        {
            StepState.READY,
            StepState.RUNNING,
            StepState.SUCCESS,
            StepState.FAILED,
            StepState.TOLERATED,
            StepState.KILLED,
        }
    ),
    **{state: frozenset() for state in _STEP_ENDS},
}

TASK_MOVES: dict[TaskState, frozenset[TaskState]] = {
    TaskState.WAITING: frozenset({TaskState.READY, TaskState.KILLED}),
    TaskState.READY: frozenset({TaskState.RUNNING, TaskState.SUSPENDED, TaskState.KILLED}),
    TaskState.RUNNING: frozenset(
        {
            TaskState.READY,
            TaskState.RUNNING,
            TaskState.SUSPENDED,
            TaskState.SUCCESS,
            TaskState.FAILED,
            TaskState.KILLED,
        }
    ),
    TaskState.SUSPENDED: frozenset({TaskState.READY, TaskState.KILLED}),
    **{state: frozenset() for state in _TASK_ENDS},
}


def step_sources_of(target: StepState) -> list[StepState]:
    """The states from which a step may move to `target`."""
    return [state for state, targets in STEP_MOVES.items() if target in targets]


def occasion_of(kind: str, state: JobState) -> Occasion | None:
    """The occasion of an event; None if receivers are not notified of it."""
    if kind == "Job Late":
        return "lateness"
    if kind == "Job Suspended":
        return "suspension"
    if kind != "Job Ended":
        return None
    return "success" if state is JobState.SUCCESS else "failure"
