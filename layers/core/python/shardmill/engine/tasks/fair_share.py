"""Share a group fairly: a large step (a "giant") has a smaller window while other large steps use its lanes.

SQS fair queues balance by message group; a small window has that effect on a first-in, first-out queue.
"""

from __future__ import annotations

from shardmill.engine.groups.lanes import share_queue
from shardmill.engine.groups.matching import group_rows, live_workers
from shardmill.engine.mill import Mill
from shardmill.engine.tasks import messages
from shardmill.store.rows import StepRow

DEFAULT_WINDOW = 1_000
LEAST_WINDOW = 64
_TASKS_PER_SLOT = 4
_MAX_GIANTS = 50  # limits the reads; with so many giants, resizing a few more makes no difference


def make_room(mill: Mill, step: StepRow, now: int) -> StepRow:
    """Shrink the windows of the giants in a step's lanes before its first messages are sent.

    A giant registers before it reads the others, so that of two concurrent ones at least one sees the other.
    """
    giant = step.window > LEAST_WINDOW
    _enter(mill, step)
    others = _giants(mill, step, now)
    for other in others:
        _resize(mill, other, min(other.window, _shared_window(mill, other, now)), now)
    window = _shared_window(mill, step, now) if others else step.window
    if giant and step.window > window:
        return mill.jobs.set_window(step, window) or step
    return step


def grow(mill: Mill, step: StepRow, now: int) -> None:
    """Enlarge a shrunk window to the number of tasks that the workers of the groups can use now."""
    if is_shrunk(step):
        window = min(natural_window(step), _shared_window(mill, step, now))
        _resize(mill, step, max(step.window, window), now)


def is_shrunk(step: StepRow) -> bool:
    return LEAST_WINDOW <= step.window < natural_window(step)


def natural_window(step: StepRow) -> int:
    """The window of a step that shares its groups with no other giant."""
    return min(step.settings.max_task_count or DEFAULT_WINDOW, step.total)


def move(mill: Mill, before: StepRow, after: StepRow) -> None:
    """Update in which groups a step is registered after its groups or its window changed."""
    if after.in_progress:
        for name in set(before.groups) - set(after.groups):
            mill.groups.remove_giant(name, before.key)
        _enter(mill, after)


def _enter(mill: Mill, step: StepRow) -> None:
    if step.window > LEAST_WINDOW:
        for name in step.groups:
            mill.groups.add_giant(name, step.key)


def leave(mill: Mill, step: StepRow) -> None:
    """Deregister a step that has ended."""
    if step.total > LEAST_WINDOW:
        for name in step.groups:
            mill.groups.remove_giant(name, step.key)


def _giants(mill: Mill, step: StepRow, now: int) -> list[StepRow]:
    """The open giants of other Jobs in the queues of a step. Deregisters ended giants."""
    rows = group_rows(mill, step.groups, now)
    named = {name: mill.groups.giants(name, most=_MAX_GIANTS) for name in rows}
    found = mill.jobs.steps_by_key(set().union(*named.values())) if any(named.values()) else {}
    for name, keys in named.items():
        for key in keys:
            if key not in found or found[key].state.ended:
                mill.groups.remove_giant(name, key)
    return [
        giant
        for giant in found.values()
        if giant.opened
        and giant.job_id != step.job_id
        and any(share_queue(row, giant.priority, step.priority) for row in rows.values())
    ]


def _shared_window(mill: Mill, step: StepRow, now: int) -> int:
    """The window of a giant that shares its groups: enough for every slot, the default for Lambda.

    Workers are counted until their slots suffice for the window that the step has without other giants.
    """
    rows = group_rows(mill, step.groups, now)
    if any(row.kind == "lambda" for row in rows.values()):
        return DEFAULT_WINDOW
    enough, window = natural_window(step), 0
    for worker in live_workers(mill, rows, now):
        window += _TASKS_PER_SLOT * worker.slots
        if window >= enough:
            break
    return max(LEAST_WINDOW, window)


def _resize(mill: Mill, step: StepRow, window: int, now: int) -> None:
    if window == step.window or step.stopping:
        return
    resized = mill.jobs.raise_generation(step, window=window)
    if resized:
        messages.request_resend(mill, resized, now)
