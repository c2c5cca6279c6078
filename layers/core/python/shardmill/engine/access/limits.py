"""Limits of applications: create Jobs within them, report the limit that is reached, and show the present
use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from shardmill.engine.access.errors import LimitReached
from shardmill.engine.mill import Mill
from shardmill.model.access.grants import Application
from shardmill.model.access.limits import Limits
from shardmill.model.actor import Actor
from shardmill.store.access.usage import LimitExceeded
from shardmill.store.rows import JobRow
from shardmill.store.update import Item

if TYPE_CHECKING:
    from shardmill.model.access.usage import ApplicationLimits

_KINDS = {
    "definitions": ("definitions", "delete a definition"),
    "jobs": ("live Jobs", "wait until Jobs end, or kill some"),
    "tasks": ("tasks of live Jobs", "wait until Jobs end, or kill some"),
    "schedules": ("schedules", "delete a schedule"),
    "bytes": ("bytes of files", "delete ended Jobs with their files"),
}
_PARAMETERS = {name: f"Application{name.capitalize()}" for name in _KINDS}


def create_job(
    mill: Mill, job: JobRow, *, due: int, also: Sequence[Item] = (), actor: Actor | None = None
) -> bool:
    """Create a Job as `Jobs.create` does. Raises LimitReached, with a message for `actor`."""
    with limits_reported(mill, actor):
        return mill.jobs.create(job, due=due, also=also)


@contextmanager
def limits_reported(mill: Mill, actor: Actor | None = None) -> Iterator[None]:
    """Raise LimitReached if a write would exceed a limit of an application; nothing was written then.

    Its message includes the usage only if the `actor` may read all of the application.
    """
    try:
        yield
    except LimitExceeded as error:
        raise limit_reached(mill, error, actor) from error


def check_room(mill: Mill, application: str, wanted: Limits, actor: Actor) -> None:
    """Raise LimitReached if a later write of so much would exceed a limit, before the writes that precede
    it."""
    if mill.usage.limits.any and any(_exceeded(mill.usage.limits, mill.usage.of(application), wanted)):
        raise limit_reached(mill, LimitExceeded(application, wanted), actor)


def limit_reached(mill: Mill, error: LimitExceeded, actor: Actor | None) -> LimitReached:
    limits, used, wanted = mill.usage.limits, mill.usage.of(error.application), error.wanted
    kind = next(iter(_exceeded(limits, used, wanted)), "")
    kind = kind or next(name for name in Limits._fields if getattr(limits, name) and getattr(wanted, name))
    noun, advice = _KINDS[kind]
    limit, present, more = (getattr(each, kind) for each in (limits, used, wanted))
    known = actor is not None and actor.may("read", Application(error.application))
    owner = f"the application {error.application!r}" if error.application else "the unnamed application"
    facts = [f"{owner} may have at most {limit} {noun}"]
    facts += [f"it has {present}"] if known else []
    facts += [f"this needs {more} more"] if more > 1 else []
    facts += [f"{advice}, or ask the operator to raise {_PARAMETERS[kind]}"]
    return LimitReached(
        "; ".join(facts),
        extra={
            "application": error.application,
            "limit": kind,
            "most": limit,
            **({"used": present} if known else {}),
        },
    )


def _exceeded(limits: Limits, used: Limits, wanted: Limits) -> Iterator[str]:
    """The limits that a write would exceed; new Jobs are rejected when the files have reached theirs."""
    for name in Limits._fields:
        limit, more = getattr(limits, name), getattr(wanted, name)
        if limit and more > 0 and getattr(used, name) + more > limit:
            yield name
    if limits.bytes and wanted.jobs > 0 and used.bytes >= limits.bytes:
        yield "bytes"


def application_limits(mill: Mill, application: str, actor: Actor) -> ApplicationLimits:
    """Return the limits of an application, and its present use if the actor may read all of it."""
    from shardmill.model.access.usage import ApplicationLimits  # Pydantic models, which only the API needs

    limits = mill.usage.limits
    known = limits.any and actor.may("read", Application(application))
    used = mill.usage.of(application) if known else None
    shown: dict[str, object] = {"application": application}
    for name in Limits._fields:
        counted = used is not None and (name != "bytes" or limits.bytes > 0)
        shown[name] = {
            "limit": getattr(limits, name) or None,
            "used": getattr(used, name) if counted else None,
        }
    return ApplicationLimits.model_validate(shown)
