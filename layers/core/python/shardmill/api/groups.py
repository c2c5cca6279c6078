"""/v1/groups: worker groups."""

from __future__ import annotations

from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Query

from shardmill.api import pagination
from shardmill.api.pagination import Cursor, Limit, Page
from shardmill.api.responses import JSON, NO_REASON, ReasonBody, actor, no_content, now, visible
from shardmill.engine.groups import groups
from shardmill.engine.mill import mill
from shardmill.model.groups.group import GroupRequest, TypeBinding, WorkerGroup
from shardmill.model.timestamps import from_ms
from shardmill.store.rows import GroupRow

MAX_GROUPS_SCANNED = 2_000
Force = Annotated[bool, Query()]


def _group(row: GroupRow, all_suspended: str = "") -> WorkerGroup:
    return WorkerGroup(
        id=row.name,
        name=row.name,
        kind=row.kind,
        lease_seconds=row.lease_seconds,
        types=row.types,
        bindings=[
            TypeBinding(type=name, create_time=from_ms(created), update_time=from_ms(updated))
            for name in row.types
            for created, updated in [row.bound.get(name, (row.create_time, row.update_time))]
        ],
        suspended=row.suspended or all_suspended or None,
        create_time=from_ms(row.create_time),
        update_time=from_ms(row.update_time),
    )


def save_group(name: str, group: Annotated[GroupRequest, Body()]) -> Response[WorkerGroup]:
    """Create a worker group with its queues, or change it."""
    row, new = groups.save(mill(), name, group, now())
    return Response(
        status_code=201 if new else 200,
        content_type=JSON,
        body=_group(row, mill().groups.every_group().suspended),
    )


def read_group(name: str) -> WorkerGroup:
    return _group(groups.read(mill(), name), mill().groups.every_group().suspended)


def delete_group(name: str, force: Force = False) -> Response[None]:
    """Delete a group and its queues. Rejected while unfinished Jobs need it, unless `force` is set."""
    groups.delete(mill(), name, visible(), force=force)
    return no_content()


def list_groups(limit: Limit = pagination.DEFAULT_LIMIT, cursor: Cursor = None) -> Page[WorkerGroup]:
    rows = mill().groups.page(after=pagination.decode_cursor(cursor, str), limit=limit + 1)
    all_suspended = mill().groups.every_group().suspended
    seen = visible()
    found = ((row.name, _group(row, all_suspended) if seen.groups([row.name]) else None) for row in rows)
    return pagination.page(found, limit, max_scanned=MAX_GROUPS_SCANNED, look_ahead=not seen.all)


def suspend_group(name: str, request: ReasonBody = NO_REASON) -> WorkerGroup:
    """Suspend a group: its tasks are not leased until it is resumed; running tasks continue."""
    return _group(groups.suspend(mill(), name, actor(), request.reason))


def resume_group(name: str, request: ReasonBody = NO_REASON) -> WorkerGroup:
    """Resume a group."""
    return _group(groups.resume(mill(), name), mill().groups.every_group().suspended)


def suspend_all_groups(request: ReasonBody = NO_REASON) -> Response[None]:
    """Suspend all groups, including groups created later, until all are resumed."""
    groups.suspend_all(mill(), actor(), request.reason)
    return no_content()


def resume_all_groups(request: ReasonBody = NO_REASON) -> Response[None]:
    """Resume all groups; a group that was suspended individually stays suspended."""
    groups.resume_all(mill())
    return no_content()
