"""The outcome of an attempt, before it becomes a Result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shardmill.model.transfers import Stored
from shardmill.model.worker import Outcome

PERMANENT_EXIT = 42
REJECT_EXIT = 75
"""EX_TEMPFAIL: the program asks to be run later or by another worker."""

MAX_REASON = 1_000
TIMED_OUT = "timed-out"
DISCARDED = "discarded"


class TaskRejected(Exception):
    """This worker cannot run the task; another one may."""


class InvalidTask(Exception):
    """The task does not specify a valid program; no worker can run it."""


@dataclass(frozen=True, slots=True)
class AttemptOutcome:
    outcome: Outcome
    reason: str | None = None
    exit_code: int | None = None
    stdout: str | None = None
    stderr: str | None = None
    output: Any = None
    files: Sequence[Stored] = ()


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """The exit code of a program, or the negative signal that killed it; and whether the worker ended it."""

    code: int
    timed_out: bool = False
    stopped: bool = False


def outcome_of(ended: ProcessExit) -> AttemptOutcome:
    """The outcome for an exit code."""
    if ended.timed_out or ended.stopped:
        return AttemptOutcome("failed", TIMED_OUT if ended.timed_out else DISCARDED, ended.code)
    if ended.code == 0:
        return AttemptOutcome("success", None, 0)
    if ended.code < 0:
        return AttemptOutcome("failed", f"killed by signal {-ended.code}", ended.code)
    if ended.code == REJECT_EXIT:
        return AttemptOutcome("rejected", f"exit code {REJECT_EXIT}: rejected by the program", ended.code)
    outcome: Outcome = "failed-permanent" if ended.code == PERMANENT_EXIT else "failed"
    return AttemptOutcome(outcome, f"exit code {ended.code}", ended.code)
