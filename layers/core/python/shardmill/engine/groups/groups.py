"""Worker groups and their queues."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ValidationError

from shardmill.engine.errors import GroupFixed, GroupInUse, GroupNotFound, RequestInvalid
from shardmill.engine.mill import Mill
from shardmill.model.actor import Actor, suspended_by
from shardmill.model.fault import fault, faults_of
from shardmill.model.worker import GroupName, GroupRequest
from shardmill.store.keys import EVERY_GROUP
from shardmill.store.rows import GroupRow

DEFAULT_LEASE_SECONDS = 60
LAMBDA_LEASE_SECONDS = 900
ALWAYS_THERE = {"default": "pull", "lambda": "lambda"}


def save(mill: Mill, name: str, request: GroupRequest, now: int) -> tuple[GroupRow, bool]:
    """Make a group with its queues, or change it; whether it is new."""
    _check_name(name)
    known = mill.groups.get(name)
    kind = request.kind or (known.kind if known else "pull")
    least = LAMBDA_LEASE_SECONDS if kind == "lambda" else 0
    if least and request.lease_seconds and request.lease_seconds < least:
        text = f"must be at least {least} for a group of kind lambda: a function may run that long"
        fault_ = fault(("leaseSeconds",), "out-of-range", text)
        raise RequestInvalid("the group is not valid", faults=[fault_.model_dump()])
    if known:
        if known.kind != kind:
            raise GroupFixed(f"group {name!r} is of kind {known.kind}; delete it first to change that")
        seconds = request.lease_seconds or known.lease_seconds
        changed = mill.groups.change(name, lease_seconds=seconds, types=request.types, now=now)
        mill.recent_groups.discard(name)
        return changed or known, False
    seconds = request.lease_seconds or least or DEFAULT_LEASE_SECONDS
    return _make(mill, name, kind, seconds, request.types or [], now)


def _make(
    mill: Mill, name: str, kind: str, seconds: int, types: Sequence[str], now: int
) -> tuple[GroupRow, bool]:
    generation = mill.groups.next_generation(name)
    if kind == "lambda":
        queues = list(mill.settings.lambda_queues)
    else:
        queues = mill.queues.make_lanes(mill.settings.stack, name, generation, seconds)
    group = GroupRow(name, kind, seconds, queues, generation, now, now, list(types))
    if mill.groups.create(group):
        return group, True
    if kind == "pull":
        mill.queues.remove(queues)
    return read(mill, name), False


def _check_name(name: str) -> None:
    try:
        GroupName(name=name)
    except ValidationError as error:
        faults = [fault.model_dump() for fault in faults_of(error, GroupName, {}, {})]
        raise RequestInvalid(f"{name!r} is no name for a group", faults=faults) from None


def read(mill: Mill, name: str) -> GroupRow:
    group = mill.groups.get(name)
    if not group:
        raise GroupNotFound(f"there is no worker group {name!r}; make it with PUT /v1/groups/{name}")
    return group


def delete(mill: Mill, name: str, *, force: bool = False) -> None:
    """Remove a group and its queues; steps that need it fail then, so it is refused unless forced."""
    group = read(mill, name)
    if name in ALWAYS_THERE:
        raise GroupFixed(f"group {name!r} is always there and cannot be deleted")
    needing = None if force else next(mill.jobs.needing(name), None)
    if needing:
        raise GroupInUse(
            f"group {name!r} is needed by Jobs that have not ended, such as {'/'.join(needing)}; "
            "wait for them, or delete it with force, and their steps fail"
        )
    mill.groups.delete(name)
    mill.recent_groups.discard(name)
    if group.kind == "pull":
        mill.queues.remove(group.queues)


def suspend(mill: Mill, name: str, actor: Actor, reason: str) -> GroupRow:
    """Have nobody take tasks of a group; those that run go on to their end."""
    return _hold(mill, name, suspended_by(actor, reason))


def resume(mill: Mill, name: str) -> GroupRow:
    return _hold(mill, name, None)


def _hold(mill: Mill, name: str, why: str | None) -> GroupRow:
    read(mill, name)
    held = mill.groups.suspend(name, why)
    mill.recent_groups.discard(name)
    return held or read(mill, name)


def suspend_all(mill: Mill, actor: Actor, reason: str) -> None:
    """Have nobody take tasks of any group, also of those that are made later."""
    _hold_all(mill, suspended_by(actor, reason))


def resume_all(mill: Mill) -> None:
    """Let tasks be taken again; a group that was suspended by itself stays so."""
    _hold_all(mill, None)


def _hold_all(mill: Mill, why: str | None) -> None:
    mill.groups.suspend_every_group(why)
    mill.recent_groups.discard(EVERY_GROUP)


def set_up(mill: Mill, now: int) -> None:
    """Make the groups that are always there."""
    for name, kind in ALWAYS_THERE.items():
        if not mill.groups.get(name):
            save(mill, name, GroupRequest.model_validate({"kind": kind}), now)


def tear_down(mill: Mill) -> None:
    """Remove what was made at run time: CloudFormation does not know it."""
    mill.queues.remove(mill.queues.of_stack(mill.settings.stack))
    mill.files.remove_all()
