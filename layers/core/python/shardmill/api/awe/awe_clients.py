"""/awe/client: registration and heartbeats of clients."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from shardmill.api.awe.awe_request import AweRequest, parse_json
from shardmill.aws.clock import new_id
from shardmill.engine.awe import awe_clients
from shardmill.engine.awe.client_documents import client_documents
from shardmill.engine.awe.lookup import own_client, visible_client
from shardmill.engine.errors import BadRequest
from shardmill.engine.mill import mill
from shardmill.engine.workers import registry


def server_uuid(now: int) -> str:
    return mill().awe_servers.get(new_id(), now).uuid


def register(request: AweRequest) -> dict[str, Any]:
    """Register a client by the profile in the field `profile`, or in the body itself."""
    profile = parse_json(request.document("profile") or b"{}", "the profile")
    worker = awe_clients.register(
        mill(), profile, request.actor, new_id=new_id(), source_ip=request.source_ip, now=request.now
    )
    [document] = client_documents(mill(), [worker], request.now)
    return {**document, "server_uuid": server_uuid(request.now)}


def beat(request: AweRequest) -> dict[str, str]:
    """A heartbeat of a client that does not list its workunits."""
    return _beat(request, None)


def beat_with_work(request: AweRequest) -> dict[str, str]:
    """A heartbeat of a client that names its workunits in `current_work.data`."""
    body = parse_json(request.body, "the body") if request.body.strip() else None
    return _beat(
        request, awe_clients.named_units(body.get("current_work")) if isinstance(body, dict) else None
    )


def read(request: AweRequest) -> dict[str, Any]:
    worker = visible_client(mill(), request.ids["client_id"], request.actor, "read")
    [document] = client_documents(mill(), [worker], request.now)
    return document


def change(request: AweRequest) -> str:
    """Suspend or resume a client."""
    worker = visible_client(mill(), request.ids["client_id"], request.actor, "operate")
    if request.has("suspend"):
        registry.suspend(mill(), worker.id, request.actor, "")
        return "client suspended"
    if request.has("resume"):
        registry.resume(mill(), worker.id, request.now)
        return "client resumed"
    raise BadRequest("the query must have one of heartbeat, suspend, resume and subclients")


def set_subclients(request: AweRequest) -> str:
    """Record the number of clients behind a proxy."""
    worker = own_client(mill(), request.ids["client_id"], request.actor, request.now)
    number = request.number("subclients", 0, least=0, most=100_000)
    awe_clients.set_subclients(mill(), worker, number)
    return f"subclients set to {number}"


def change_all(request: AweRequest) -> str:
    """Suspend all clients, or resume all that are suspended."""
    if request.has("suspendall"):
        number = awe_clients.suspend_all(mill(), request.actor)
        return f"{number} active clients are suspended"
    if request.has("resumeall"):
        return f"{awe_clients.resume_all(mill(), request.now)} suspended clients are resumed"
    raise BadRequest("the query must have suspendall or resumeall")


def _beat(request: AweRequest, named: Collection[str] | None) -> dict[str, str]:
    worker, discard = awe_clients.heartbeat(
        mill(),
        request.ids["client_id"],
        request.actor,
        named,
        source_ip=request.source_ip,
        now=request.now,
    )
    answer = {"server-uuid": server_uuid(request.now)}
    if discard:
        answer["discard"] = ",".join(discard)
    if worker.drain:
        answer["stop"] = worker.name
    return answer
