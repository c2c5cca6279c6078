"""The deployment as an AWE server."""

from __future__ import annotations

from typing import Any

from shardmill.engine.mill import Mill
from shardmill.model.awe.times import awe_time, go_duration

RESOURCES = ("client", "cgroup", "job", "node", "queue", "work")
VERSION = "2.0"


def describe(mill: Mill, base: str, new_uuid: str, now: int) -> dict[str, Any]:
    """The answer to `GET /awe`. `new_uuid` becomes the server's uuid if it has none yet."""
    identity = mill.awe_servers.get(new_uuid, now)
    suspended = mill.groups.every_group().suspended
    return {
        "resources": list(RESOURCES),
        "url": f"{base}/",
        "title": f"Shardmill {mill.settings.stack}",
        "contact": "",
        "id": "AWE",
        "type": "server",
        "queue_status": "suspended" if suspended else "running",
        "version": VERSION,
        "server_time": awe_time(now),
        "uptime": go_duration(now - identity.create_time),
        "uuid": identity.uuid,
    }
