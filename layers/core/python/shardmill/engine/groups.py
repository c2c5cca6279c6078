"""Worker groups and their queues."""

from __future__ import annotations

from pydantic import ValidationError

from shardmill.engine.errors import GroupFixed, GroupNotFound, RequestInvalid
from shardmill.engine.mill import Mill
from shardmill.model.fault import faults_of
from shardmill.model.worker import GroupName
from shardmill.store.rows import GroupRow

DEFAULT_LEASE_SECONDS = 60
LAMBDA_LEASE_SECONDS = 900
ALWAYS_THERE = {"default": "pull", "lambda": "lambda"}


def save(mill: Mill, name: str, *, kind: str, lease_seconds: int | None, now: int) -> tuple[GroupRow, bool]:
    """Make a group with its queues, or change its lease time; whether it is new."""
    _check_name(name)
    lambda_kind = kind == "lambda"
    seconds = lease_seconds or (LAMBDA_LEASE_SECONDS if lambda_kind else DEFAULT_LEASE_SECONDS)
    known = mill.groups.get(name)
    if known:
        if known.kind != kind:
            raise GroupFixed(f"group {name!r} is of kind {known.kind}; delete it first to change that")
        return mill.groups.change(name, lease_seconds=seconds, now=now) or known, False
    generation = mill.groups.next_generation(name)
    queues = (
        list(mill.settings.lambda_queues)
        if lambda_kind
        else mill.queues.make_lanes(mill.settings.stack, name, generation, seconds)
    )
    group = GroupRow(name, kind, seconds, queues, generation, create_time=now, update_time=now)
    if mill.groups.create(group):
        return group, True
    if not lambda_kind:
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


def delete(mill: Mill, name: str) -> None:
    """Remove a group and its queues."""
    group = read(mill, name)
    if name in ALWAYS_THERE:
        raise GroupFixed(f"group {name!r} is always there and cannot be deleted")
    mill.groups.delete(name)
    mill.recent_groups.forget(name)
    if group.kind == "pull":
        mill.queues.remove(group.queues)


def set_up(mill: Mill, now: int) -> None:
    """Make the groups that are always there."""
    for name, kind in ALWAYS_THERE.items():
        if not mill.groups.get(name):
            save(mill, name, kind=kind, lease_seconds=None, now=now)


def tear_down(mill: Mill) -> None:
    """Remove what was made at run time: CloudFormation does not know it."""
    mine = {*mill.settings.lambda_queues, mill.settings.dead_queue}
    mill.queues.remove(url for url in mill.queues.of_stack(mill.settings.stack) if url not in mine)
    mill.files.remove_all()
