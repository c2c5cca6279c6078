"""Sharing a group fairly: a step with many tasks keeps few of them in the queue while others want a turn.

SQS hands out by message group on AWS; where a queue is plain first in, first out, a short window does it.
"""

from __future__ import annotations

from shardmill.aws.queues import lane_of
from shardmill.engine.groups.matching import group_rows, live_workers
from shardmill.engine.mill import Mill
from shardmill.engine.tasks import messages
from shardmill.store.keys import parse_step_reference
from shardmill.store.rows import StepRow

DEFAULT_WINDOW = 1_000
LEAST_WINDOW = 64
_WINDOWS_A_SLOT = 4
_MOST = 50  # with so many giants at once, those are shrunk that matter


def make_room(mill: Mill, step: StepRow, now: int) -> StepRow:
    """Before a step's first messages go out, shrink the windows of those it shares its lanes with.

    A giant notes itself before it looks for others, so that of two at least one sees the other.
    """
    giant = step.window > LEAST_WINDOW
    _enter(mill, step)
    for name in step.groups:
        mill.recent_groups.discard(name)
    others = _giants(mill, step, now)
    for other in others:
        _resize(mill, other, min(other.window, _shared_window(mill, other, now)), now)
    window = _shared_window(mill, step, now) if others else step.window
    if giant and step.window > window:
        return mill.jobs.set_window(step, window) or step
    return step


def grow(mill: Mill, step: StepRow, now: int) -> None:
    """Give a step that was shrunk what its groups can use by now: workers may have joined."""
    natural = natural_window(step)
    if LEAST_WINDOW <= step.window < natural:
        window = min(natural, _shared_window(mill, step, now))
        _resize(mill, step, max(step.window, window), now)


def natural_window(step: StepRow) -> int:
    """How many tasks of a step are in the queue while it has its group for itself."""
    return min(step.settings.max_task_count or DEFAULT_WINDOW, step.total)


def move(mill: Mill, before: StepRow, after: StepRow) -> None:
    """A step has other groups, or another window: it is known where it shares now, and nowhere else."""
    if after.begun:
        for name in set(before.groups) - set(after.groups):
            mill.groups.remove_giant(name, before.key)
        _enter(mill, after)


def _enter(mill: Mill, step: StepRow) -> None:
    if step.window > LEAST_WINDOW:
        for name in step.groups:
            mill.groups.add_giant(name, step.key)


def leave(mill: Mill, step: StepRow) -> None:
    """A step is over: it shares nothing any more."""
    if step.total > LEAST_WINDOW:
        for name in step.groups:
            mill.groups.remove_giant(name, step.key)


def _giants(mill: Mill, step: StepRow, now: int) -> list[StepRow]:
    """The giants of other Jobs that are open in the lanes of a step; those that ended are struck off."""
    rows = group_rows(mill, step.groups, now)
    named = {
        name: {parse_step_reference(text) for text in sorted(row.giants)[:_MOST]}
        for name, row in rows.items()
    }
    found = mill.jobs.steps_by_key(set().union(*named.values())) if any(named.values()) else {}
    for name, keys in named.items():
        for key in keys:
            if key not in found or found[key].state.ended:
                mill.groups.remove_giant(name, key)
    lane = lane_of(step.priority)
    return [
        giant
        for giant in found.values()
        if giant.opened and giant.job_id != step.job_id and lane_of(giant.priority) == lane
    ]


def _shared_window(mill: Mill, step: StepRow, now: int) -> int:
    """Few, but enough to keep every slot of a step's groups busy; Lambda has as many as it likes."""
    rows = group_rows(mill, step.groups, now)
    if any(row.kind == "lambda" for row in rows.values()):
        return DEFAULT_WINDOW
    slots = sum(worker.slots for worker in live_workers(mill, rows, now))
    return max(LEAST_WINDOW, _WINDOWS_A_SLOT * slots)


def _resize(mill: Mill, step: StepRow, window: int, now: int) -> None:
    if window == step.window or step.stopping:
        return
    resized = mill.jobs.raise_generation(step, window=window)
    if resized:
        messages.send_again(mill, resized, now)
