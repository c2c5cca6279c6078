"""/v1/groups: worker groups"""

from __future__ import annotations

from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Query

from shardmill.api import pagination
from shardmill.api.pagination import Cursor, Limit, Page
from shardmill.api.responses import JSON, NO_REASON, Why, actor, no_content, now
from shardmill.engine.groups import groups
from shardmill.engine.mill import mill
from shardmill.model.base import from_ms
from shardmill.model.worker import (
    GroupRequest,
    WorkerGroup,
)
from shardmill.store.rows import GroupRow

Force = Annotated[bool, Query()]


def _group(row: GroupRow, everything: str = "") -> WorkerGroup:
    return WorkerGroup(
        id=row.name,
        name=row.name,
        kind=row.kind,
        lease_seconds=row.lease_seconds,
        types=row.types,
        suspended=row.suspended or everything or None,
        create_time=from_ms(row.create_time),
        update_time=from_ms(row.update_time),
    )


def save_group(name: str, group: Annotated[GroupRequest, Body()]) -> Response[WorkerGroup]:
    """Make a worker group with its queues, or change it."""
    row, new = groups.save(mill(), name, group, now())
    return Response(
        status_code=201 if new else 200,
        content_type=JSON,
        body=_group(row, mill().groups.every_group().suspended),
    )


def read_group(name: str) -> WorkerGroup:
    return _group(groups.read(mill(), name), mill().groups.every_group().suspended)


def delete_group(name: str, force: Force = False) -> Response[None]:
    """Delete a group and its queues; refused while Jobs that have not ended need it, unless forced."""
    groups.delete(mill(), name, force=force)
    return no_content()


def list_groups(limit: Limit = pagination.DEFAULT_LIMIT, cursor: Cursor = None) -> Page[WorkerGroup]:
    rows = mill().groups.page(after=pagination.place_of(cursor, str), limit=limit + 1)
    everything = mill().groups.every_group().suspended
    return pagination.page(((row.name, _group(row, everything)) for row in rows), limit)


def suspend_group(name: str, why: Why = NO_REASON) -> WorkerGroup:
    """Have nobody take tasks of a group until it is resumed; those that run go on to their end."""
    return _group(groups.suspend(mill(), name, actor(), why.reason))


def resume_group(name: str, why: Why = NO_REASON) -> WorkerGroup:
    """Let tasks of a group be taken again."""
    return _group(groups.resume(mill(), name), mill().groups.every_group().suspended)


def suspend_all_groups(why: Why = NO_REASON) -> Response[None]:
    """Have nobody take any task until everything is resumed, also in groups that are made later."""
    groups.suspend_all(mill(), actor(), why.reason)
    return no_content()


def resume_all_groups(why: Why = NO_REASON) -> Response[None]:
    """Let tasks be taken again; a group that was suspended by itself stays so."""
    groups.resume_all(mill())
    return no_content()
