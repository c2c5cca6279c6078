"""Sharing a group fairly: a step with many tasks keeps few of them in the queue while others want a turn.

SQS hands out by message group on AWS; where a queue is plain first in, first out, a short window does it.
"""

from __future__ import annotations

from shardmill.aws.queues import lane_of
from shardmill.engine import enqueue
from shardmill.engine.crew import group_rows, live_crew
from shardmill.engine.mill import Mill
from shardmill.store.rows import StepRow
from shardmill.store.workers import parse_step

LEAST_WINDOW = 64
_WINDOWS_A_SLOT = 4


def make_room(mill: Mill, step: StepRow, now: int) -> StepRow:
    """Before a step's first messages go out, shrink the windows of those it shares its lanes with.

    A giant notes itself before it looks for others, so that of two at least one sees the other.
    """
    giant = step.window > LEAST_WINDOW
    for name in step.groups:
        if giant:
            mill.groups.note_giant(name, step)
        mill.recent_groups.forget(name)
    others = _giants(mill, step, now)
    if not others:
        return step
    window = _shared_window(mill, step.groups, now)
    for other in others:
        _shrink(mill, other, window, now)
    if giant and step.window > window:
        return mill.jobs.set_window(step, window) or step
    return step


def leave(mill: Mill, step: StepRow) -> None:
    """A step is over: it shares nothing any more."""
    if step.total > LEAST_WINDOW:
        for name in step.groups:
            mill.groups.giant_gone(name, step)


def _giants(mill: Mill, step: StepRow, now: int) -> list[StepRow]:
    """The giants of other Jobs that are open in the lanes of a step; those that ended are struck off."""
    rows = group_rows(mill, step.groups, now)
    named = {name: {parse_step(text) for text in row.giants} for name, row in rows.items()}
    found = mill.jobs.steps_by_key(set().union(*named.values())) if any(named.values()) else {}
    for name, keys in named.items():
        for key in keys:
            if (giant := found.get(key)) and giant.state.ended:
                mill.groups.giant_gone(name, giant)
    lane = lane_of(step.priority)
    return [
        giant
        for giant in found.values()
        if giant.opened and giant.job_id != step.job_id and lane_of(giant.priority) == lane
    ]


def _shared_window(mill: Mill, groups: list[str], now: int) -> int:
    """Few, but enough to keep every slot of the groups busy."""
    slots = sum(worker.slots for worker in live_crew(mill, groups, now))
    return max(LEAST_WINDOW, _WINDOWS_A_SLOT * slots)


def _shrink(mill: Mill, giant: StepRow, window: int, now: int) -> None:
    if giant.window <= window or giant.stopping:
        return
    shrunk = mill.jobs.raise_generation(giant, window=window)
    if shrunk:
        enqueue.send_again(mill, shrunk, now)
