"""The caller of a use case, passed to it explicitly."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Actor:
    name: str


def suspended_by(actor: Actor, reason: str) -> str:
    """The notes of something that is suspended."""
    return f"suspended by {actor.name}" + (f": {reason}" if reason else "")
