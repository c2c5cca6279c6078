"""Who asks: an explicit argument of every use case."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Actor:
    name: str


def suspended_by(actor: Actor, reason: str) -> str:
    """Who suspended something, and why, as notes tell it."""
    return f"suspended by {actor.name}" + (f": {reason}" if reason else "")
