"""The answer to GET /v1/now."""

from collections.abc import Sequence
from typing import Any


def overview(
    running: Sequence[dict[str, Any]] = (),
    failed: Sequence[dict[str, Any]] = (),
    ended: Sequence[dict[str, Any]] = (),
    groups: Sequence[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    live = {state: {"items": [], "more": False} for state in ("RUNNING", "QUEUED", "WAITING", "SUSPENDED")}
    live["RUNNING"] = {"items": list(running), "more": False}
    default = {"name": "default", "kind": "pull", "online": 1, "slots": 4, "held": 2}
    return {
        "live": live,
        "failed": list(failed),
        "ended": list(ended),
        "endedMore": False,
        "groups": [default] if groups is None else list(groups),
        "schedules": [],
    }
