"""The exceptions of the node store."""

from __future__ import annotations

from shardmill.engine.errors import Conflict, NotFound


class NodeNotFound(NotFound):
    """The node does not exist, or the caller may not see it."""

    code = "node-not-found"

    def __init__(self, node_id: str) -> None:
        super().__init__(f"Node not found: {node_id[:100]!r}")


class NodeWithoutFile(Conflict):
    """The file of the node is not complete.

    Clients of the AWE protocol compare this text, and retry.
    """

    code = "node-without-file"

    def __init__(self) -> None:
        super().__init__("Node has no file")


class NodeImmutable(Conflict):
    """The node has another file already."""

    code = "node-immutable"
