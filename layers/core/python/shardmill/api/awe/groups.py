"""/awe/cgroup: client groups and their tokens."""

from __future__ import annotations

from typing import Any

from shardmill.api.awe.awe_request import AweRequest
from shardmill.api.awe.envelope import AweAnswer, listed
from shardmill.aws.clock import random_bytes
from shardmill.engine.access import tokens
from shardmill.engine.access.errors import Forbidden
from shardmill.engine.access.visible import Visible
from shardmill.engine.awe import client_groups
from shardmill.engine.mill import mill

_ENTROPY = tokens.ID_BYTES + tokens.SECRET_BYTES


def create(request: AweRequest) -> dict[str, Any]:
    name = request.ids["name"]
    return client_groups.create(mill(), name, request.actor, entropy=random_bytes(_ENTROPY), now=request.now)


def list_groups(request: AweRequest) -> AweAnswer:
    found = client_groups.list_groups(mill(), Visible(mill(), request.actor))
    limit = request.limit(100, 1_000)
    offset = request.number("offset", 0, least=0, most=10**9)
    return listed(found[offset : offset + limit], limit=limit, offset=offset, total=len(found))


def read(request: AweRequest) -> dict[str, Any]:
    return client_groups.read(mill(), _visible(request, "read"))


def delete(request: AweRequest) -> dict[str, Any]:
    return client_groups.delete(mill(), _visible(request, "define"), Visible(mill(), request.actor))


def issue_token(request: AweRequest) -> dict[str, Any]:
    entropy = random_bytes(_ENTROPY)
    name = request.ids["name"]
    return client_groups.issue_token(mill(), name, request.actor, entropy=entropy, now=request.now)


def revoke_token(request: AweRequest) -> dict[str, Any]:
    return client_groups.revoke_token(mill(), request.ids["name"])


def _visible(request: AweRequest, scope: str) -> str:
    name, actor = request.ids["name"], request.actor
    if not Visible(mill(), actor, scope).groups([name]):
        if scope != "read" and actor.has("read") and Visible(mill(), actor).groups([name]):
            raise Forbidden(f"the token is valid, but this needs the scope {scope!r} for it")
        raise client_groups.group_not_found(name)
    return name
