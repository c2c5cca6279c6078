"""Check live Jobs periodically: again after as long as one has been quiet, and only its open steps.

A waiting step changes only when an open step ends. So a check reads the steps that were open at the last
look; only if one of them ended in a way that this module does not follow, it reads all steps of the run.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from shardmill.engine.continuation import Budget
from shardmill.engine.mill import RECHECK_MS, Mill
from shardmill.engine.running import recover
from shardmill.engine.running.recover import Found, Lookups
from shardmill.model.states import JobState
from shardmill.store.due.watches import WatchRow, bitmap
from shardmill.store.rows import JobRow, StepRow

MAX_INTERVAL_MS = 3_600_000
RUNS = (JobState.QUEUED, JobState.RUNNING)
_EAGER = 16
_FEW = 5
_RANGE = 32


def interval(changed: int, now: int, *, eager: bool = False) -> int:
    """Return after how many milliseconds to look again at a Job that changed last at `changed`."""
    quiet = now - changed
    return max(RECHECK_MS, min(quiet // _EAGER if eager else quiet, MAX_INTERVAL_MS))


def look(
    mill: Mill, job: JobRow, watch: WatchRow, now: int, lookups: Lookups, budget: Budget | None = None
) -> bool:
    """Check the open steps of a running Job and set its next look; False if another tick was faster."""
    changed = max(job.update_time, watch.changed)
    pending = job.unapplied or job.replaces
    known = watch.open_steps if watch.run == job.run and not pending else []
    chosen = next_steps(known, watch.at) if now - changed > MAX_INTERVAL_MS else known
    steps = _open_now(mill, job, chosen) if chosen else None
    if steps is None:
        return look_at_all(mill, job, watch.da, now, lookups, budget or Budget())
    found = recover.found_in(job, steps)
    changed = max(changed, found.changed)
    due = now + interval(changed, now, eager=found.eager)
    known_now = bitmap(set(known) - set(chosen) | found.open)
    at = chosen[-1] + 1 if len(chosen) < len(known) else 0
    if not mill.watches.postpone(job.id, seen=watch.da, due=due, open=known_now, at=at, changed=changed):
        return False
    open_steps = [step for step in steps if step.index in found.open]
    if recover.recover_open_steps(mill, open_steps, now, lookups):
        mill.watches.postpone(job.id, seen=due, due=now + RECHECK_MS, open="")
    return True


def look_at_all(mill: Mill, job: JobRow, seen: int, now: int, lookups: Lookups, budget: Budget) -> bool:
    """Check all steps of a running Job and set its next look; False if another tick was faster."""
    soon = now + RECHECK_MS
    if not mill.watches.postpone(job.id, seen=seen, due=soon, open=""):
        return False
    present = mill.jobs.get(job.id)
    if present and present.run == job.run and present.state in RUNS:
        settle(mill, present, recover.recover_run(mill, present, now, lookups, budget), soon, now)
    return True


def settle(mill: Mill, job: JobRow, found: Found, seen: int, now: int) -> None:
    """Store the result of a check of all steps, and set the next look; soon if it repaired anything."""
    if not found.repaired and found.open:
        due = now + interval(found.changed, now, eager=found.eager)
        known = {"run": job.run, "open": bitmap(found.open), "at": 0, "changed": found.changed}
        mill.watches.postpone(job.id, seen=seen, due=due, **known)


def next_steps(known: Sequence[int], at: int) -> Sequence[int]:
    """Choose the steps that a look checks after an hour of quiet, from `at` on.

    They cost the same to read: a few rows one by one, or a range of neighbours in one query.
    """
    first = bisect_left(known, at)
    if first == len(known):
        first = 0
    neighbours = [index for index in known[first : first + _RANGE] if index < known[first] + _RANGE]
    return neighbours if len(neighbours) > _FEW else known[first : first + _FEW]


def _open_now(mill: Mill, job: JobRow, indices: Sequence[int]) -> list[StepRow] | None:
    """Return steps that were open, and the steps that they released; None if all steps have to be read."""
    steps = _read(mill, job, indices)
    if len(steps) < len(indices):
        return None
    ended = [step for step in steps if step.state.ended]
    if any(step.end_interrupted for step in ended):
        return None
    if any(not step.opened for step in steps if not step.state.ended):
        return None
    if job.state is JobState.QUEUED and any(step.started_time for step in steps):
        return None
    released = _read(mill, job, sorted({index for step in ended for index in step.down}))
    for step in ended:
        if any(str(step.index) in node.waiting for node in released if node.index in step.down):
            return None
    if any(not node.waiting and not recover.is_open(node) for node in released):
        return None  # it ended too, or is a gate
    return steps + [node for node in released if not node.waiting]


def _read(mill: Mill, job: JobRow, indices: Sequence[int]) -> list[StepRow]:
    """Read steps; the rows may be a second old, but what follows from them is checked by conditions."""
    if not indices:
        return []
    if len(indices) > _FEW and indices[-1] < indices[0] + _RANGE:
        found = mill.jobs.steps(job.id, job.run, first=indices[0], last=indices[-1], consistent=False)
        return [step for step in found if step.index in indices]
    wanted = [(job.id, job.run, index) for index in indices]
    return list(mill.jobs.steps_by_key(wanted, consistent=False).values())
