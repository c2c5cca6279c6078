"""Checkpoints: a small file that an attempt leaves for the next attempt at the same task.

Each attempt has its own object: a worker that lost its task cannot replace the checkpoint of a newer attempt.
"""

from __future__ import annotations

from shardmill.engine.errors import OutputTooLarge
from shardmill.engine.files import keys
from shardmill.engine.files.held_attempt import HeldAttempt
from shardmill.engine.mill import Mill
from shardmill.model.transfers import MAX_CHECKPOINT_BYTES


def save(mill: Mill, held: HeldAttempt, data: bytes) -> None:
    """Save the checkpoint of an attempt, in place of its earlier ones."""
    if len(data) > MAX_CHECKPOINT_BYTES:
        raise OutputTooLarge(f"the checkpoint has {len(data)} bytes; the maximum is {MAX_CHECKPOINT_BYTES}")
    mill.files.write(_prefix(held) + keys.checkpoint(held.attempt), data)


def load(mill: Mill, held: HeldAttempt) -> bytes | None:
    """Return the checkpoint of the last attempt before this one that saved one in this run of the Job."""
    own = _prefix(held) + keys.checkpoint(held.attempt)
    earlier = [key for key in mill.files.keys(_prefix(held)) if key < own]
    if not earlier:
        return None
    return mill.files.read(mill.files.own(max(earlier)), 0, MAX_CHECKPOINT_BYTES)


def _prefix(held: HeldAttempt) -> str:
    step = held.step
    return keys.checkpoints(step.job_id, step.run, step.index, held.rank)
