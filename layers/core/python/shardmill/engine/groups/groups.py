"""Worker groups and their queues."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pydantic import ValidationError

from shardmill.engine.access.visible import Visible
from shardmill.engine.errors import GroupFixed, GroupInUse, GroupNotFound, RequestInvalid
from shardmill.engine.groups.lanes import LAMBDA_GROUP
from shardmill.engine.mill import Mill
from shardmill.model.actor import Actor, suspended_by
from shardmill.model.fault import fault, faults_of
from shardmill.model.groups.group import GroupName, GroupRequest
from shardmill.model.groups.lanes import BANDS, MAX_LANES
from shardmill.store.group_keys import EVERY_GROUP
from shardmill.store.rows import GroupRow

DEFAULT_LEASE_SECONDS = 60
LAMBDA_LEASE_SECONDS = 900
BUILT_IN_GROUPS = {"default": "pull", LAMBDA_GROUP: "lambda"}


def save(mill: Mill, name: str, request: GroupRequest, now: int) -> tuple[GroupRow, bool]:
    """Create a group with its queues, or change it. Returns the group, and whether it is new."""
    _check_name(name, request)
    known = mill.groups.get(name)
    kind = request.kind or (known.kind if known else "pull")
    least = LAMBDA_LEASE_SECONDS if kind == "lambda" else 0
    if least and request.lease_seconds and request.lease_seconds < least:
        text = f"must be at least {least} for a group of kind lambda, the longest that a function runs"
        fault_ = fault(("leaseSeconds",), "out-of-range", text)
        raise RequestInvalid("the group is not valid", faults=[fault_.model_dump()])
    if known:
        if known.kind != kind:
            raise GroupFixed(
                f"group {name!r} is of kind {known.kind}; to change the kind, delete the group first"
            )
        known = add_missing_queues(mill, known)
        seconds = request.lease_seconds or known.lease_seconds
        bound = None if request.types is None else binding_times(request.types, known.bound, now)
        changed = mill.groups.change(name, lease_seconds=seconds, bound=bound, now=now)
        mill.recent_groups.discard(name)
        return changed or known, False
    seconds = request.lease_seconds or least or DEFAULT_LEASE_SECONDS
    return _create(mill, name, kind, seconds, request.types or [], now)


def _create(
    mill: Mill, name: str, kind: str, seconds: int, types: Sequence[str], now: int
) -> tuple[GroupRow, bool]:
    generation = mill.groups.next_generation(name)
    if kind == "lambda":
        queues = lambda_queues(mill)
    else:
        queues = mill.queues.make_lanes(mill.settings.queue_prefix, name, generation, seconds)
    bound = binding_times(types, {}, now)
    group = GroupRow(name, kind, seconds, queues, generation, now, now, list(bound), bound)
    if mill.groups.create(group):
        return group, True
    if kind == "pull":
        mill.queues.remove(queues)
    return read(mill, name), False


def binding_times(
    names: Iterable[str], before: Mapping[str, Sequence[int]], now: int
) -> dict[str, Sequence[int]]:
    """When each of these types was bound, and when the binding was last saved, which is now."""
    return {name: (before.get(name, (now,))[0], now) for name in names}


def lambda_queues(mill: Mill) -> list[str]:
    """The queues of a group of kind `lambda`: one, listed for each band of earlier releases."""
    return [mill.settings.lambda_queue] * len(BANDS)


def add_missing_queues(mill: Mill, group: GroupRow) -> GroupRow:
    """Add the queues that a group of an earlier release does not have; idempotent.

    Queues whose names have another prefix are replaced, because the stack has no permission for them. The
    tick sends the messages that were in them again.
    """
    prefix = mill.settings.queue_prefix
    foreign = any(not url.rsplit("/", 1)[-1].startswith(f"{prefix}-") for url in group.lane_queues)
    kept = [] if foreign else list(group.lane_queues)
    if len(kept) >= MAX_LANES or (group.kind == "lambda" and group.name != LAMBDA_GROUP):
        return group
    # A repeated call must request the same attributes. The lease time of the group may change in between.
    queues = mill.queues.make_lanes(
        prefix,
        group.name,
        group.generation,
        DEFAULT_LEASE_SECONDS,
        first=len(kept),
        tagged=group.kind != "lambda",
    )
    if group.kind == "lambda":
        return mill.groups.set_order_queues(group, [*kept, *queues]) or group
    return mill.groups.set_queues(group, [*kept, *queues]) or group


def _check_name(name: str, request: GroupRequest) -> None:
    differing = [field for field in ("id", "name") if getattr(request, field) not in (None, name)]
    if differing:
        text = f"differs from the URL, which has {name!r}; omit it or use the same value"
        faults = [fault((field,), "bad-name", text).model_dump() for field in differing]
        raise RequestInvalid("the group is not valid", faults=faults)
    try:
        GroupName(name=name)
    except ValidationError as error:
        faults = [fault.model_dump() for fault in faults_of(error, GroupName, {}, {})]
        raise RequestInvalid(f"{name!r} is not a valid group name", faults=faults) from None


def read(mill: Mill, name: str) -> GroupRow:
    group = mill.groups.get(name)
    if not group:
        raise GroupNotFound(f"there is no worker group {name!r}; create it with PUT /v1/groups/{name}")
    return group


def delete(mill: Mill, name: str, visible: Visible, *, force: bool = False) -> None:
    """Delete a group and its queues. Unless forced, raises GroupInUse while open Jobs use the group.

    The error names a Job only if it is `visible`.
    """
    group = read(mill, name)
    if name in BUILT_IN_GROUPS:
        raise GroupFixed(f"group {name!r} is built in and cannot be deleted")
    user = None if force else next(mill.jobs.needing(name), None)
    if user:
        job = None if visible.all else mill.jobs.find(*user)
        known = visible.all or (job is not None and visible.job(job))
        example = f", such as {'/'.join(user)}" if known else ""
        raise GroupInUse(
            f"group {name!r} is used by Jobs that have not ended{example}; wait for them to end, "
            "or delete it with force, which fails their steps"
        )
    mill.groups.delete(name)
    mill.recent_groups.discard(name)
    if group.kind == "pull":
        mill.queues.remove(group.queues)


def suspend(mill: Mill, name: str, actor: Actor, reason: str) -> GroupRow:
    """Stop leasing tasks of a group. Running tasks continue."""
    return _set_suspended(mill, name, suspended_by(actor, reason))


def resume(mill: Mill, name: str) -> GroupRow:
    return _set_suspended(mill, name, None)


def _set_suspended(mill: Mill, name: str, why: str | None) -> GroupRow:
    read(mill, name)
    group = mill.groups.suspend(name, why)
    mill.recent_groups.discard(name)
    return group or read(mill, name)


def suspend_all(mill: Mill, actor: Actor, reason: str) -> None:
    """Stop leasing tasks of all groups, including groups created later."""
    _set_all_suspended(mill, suspended_by(actor, reason))


def resume_all(mill: Mill) -> None:
    """Undo suspend_all. A group that was suspended individually stays suspended."""
    _set_all_suspended(mill, None)


def _set_all_suspended(mill: Mill, why: str | None) -> None:
    mill.groups.suspend_every_group(why)
    mill.recent_groups.discard(EVERY_GROUP)
