"""The state words of the AWE protocol for the states of the engine."""

from __future__ import annotations

from shardmill.model.states import JobState, StepState, TaskState

JOB = {
    JobState.INIT: "init",
    JobState.WAITING: "init",
    JobState.QUEUED: "queued",
    JobState.RUNNING: "in-progress",
    JobState.SUCCESS: "completed",
    JobState.SUSPENDED: "suspend",
    JobState.FAILED: "suspend",
    JobState.KILLED: "suspend",
    JobState.DELETED: "deleted",
}
TASK = {
    StepState.WAITING: "pending",
    StepState.READY: "queued",
    StepState.RUNNING: "in-progress",
    StepState.SUCCESS: "completed",
    StepState.TOLERATED: "completed",
    StepState.SKIPPED: "completed",
    StepState.SUSPENDED: "suspend",
    StepState.FAILED: "suspend",
    StepState.KILLED: "suspend",
}
WORK = {
    TaskState.WAITING: "queued",
    TaskState.READY: "queued",
    TaskState.RUNNING: "checkout",
    TaskState.SUCCESS: "completed",
    TaskState.SUSPENDED: "suspend",
    TaskState.FAILED: "suspend",
    TaskState.KILLED: "suspend",
}


def job_states(word: str) -> list[JobState]:
    """The states of the engine that a word stands for."""
    return [state for state, known in JOB.items() if known == word]
