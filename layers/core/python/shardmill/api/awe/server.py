"""GET /awe and /awe/queue: the server itself and its queue.

The queue of the AWE protocol stands for the queues of all worker groups.
"""

from __future__ import annotations

import uuid
from typing import Any

from shardmill.api.awe.awe_request import AweRequest
from shardmill.api.awe.envelope import AweAnswer
from shardmill.engine.access.visible import Visible
from shardmill.engine.awe import server, work_lists
from shardmill.engine.errors import BadRequest
from shardmill.engine.groups import groups
from shardmill.engine.mill import mill


def describe(request: AweRequest) -> AweAnswer:
    """The resources, version and uuid of the server; the only answer without the envelope."""
    return AweAnswer(server.describe(mill(), request.base, str(uuid.uuid4()), request.now), bare=True)


def read_queue(request: AweRequest) -> Any:
    """The content of the queue: a text for people, or with `json` an object."""
    summary = work_lists.queue_summary(mill(), Visible(mill(), request.actor), request.now)
    return summary if request.has("json") else work_lists.summary_text(summary)


def change_queue(request: AweRequest) -> str:
    """Suspend or resume the workunits of all groups."""
    if request.has("suspend"):
        groups.suspend_all(mill(), request.actor, "the AWE queue")
        return "queue suspended"
    if request.has("resume"):
        groups.resume_all(mill())
        return "queue resumed"
    raise BadRequest("the query must have suspend or resume")
