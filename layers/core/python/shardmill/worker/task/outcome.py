"""How an attempt ended, before it is a Result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shardmill.model.transfers import Stored
from shardmill.model.worker import Outcome

PERMANENT_EXIT = 42
REJECT_EXIT = 75
"""EX_TEMPFAIL: the program asks for another time or another worker."""

MAX_REASON = 1_000
TIMED_OUT = "timed-out"
DISCARDED = "discarded"


class Unrunnable(Exception):
    """This worker does not run such a task; another may."""


class Faulty(Exception):
    """The task does not say properly what to run; no worker can run it."""


@dataclass(frozen=True, slots=True)
class Finding:
    outcome: Outcome
    reason: str | None = None
    exit_code: int | None = None
    stdout: str | None = None
    stderr: str | None = None
    output: Any = None
    files: Sequence[Stored] = ()


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended: its exit code (minus the signal that killed it), and whether we ended it."""

    code: int
    timed_out: bool = False
    stopped: bool = False


def judge(ended: Ended) -> Finding:
    """What an exit code says."""
    if ended.timed_out or ended.stopped:
        return Finding("failed", TIMED_OUT if ended.timed_out else DISCARDED, ended.code)
    if ended.code == 0:
        return Finding("success", None, 0)
    if ended.code < 0:
        return Finding("failed", f"killed by signal {-ended.code}", ended.code)
    if ended.code == REJECT_EXIT:
        return Finding("rejected", f"exit code {REJECT_EXIT}: rejected by the program", ended.code)
    outcome: Outcome = "failed-permanent" if ended.code == PERMANENT_EXIT else "failed"
    return Finding(outcome, f"exit code {ended.code}", ended.code)
