"""The errors of the AWE protocol. Clients compare the fixed texts."""

from __future__ import annotations

from collections.abc import Sequence

from shardmill.engine.errors import BadRequest, Invalid, NotFound


class _Fixed(BadRequest):
    text = ""

    def __init__(self) -> None:
        super().__init__(self.text)


class QueueEmpty(_Fixed):
    """No workunit waits on this server."""

    text = "Server queue is empty"


class NoEligibleWork(_Fixed):
    """Workunits wait, but the client may run none of them."""

    text = "No eligible workunit found"


class QueueSuspended(_Fixed):
    text = "Server queue is suspended"


class ClientSuspended(_Fixed):
    text = "Client suspended"


class ClientBusy(_Fixed):
    """The client holds as many workunits as the server gives to one client."""

    text = "Client busy"


class ClientNotFound(_Fixed):
    """The client is not registered; clients register again when they read this.

    The status is not 404: newer clients take that for a missing server, and do not read the text.
    """

    text = "Client not found"


class UnknownClient(NotFound):
    """The same for callers that read or control clients."""

    code = "worker-not-found"

    def __init__(self) -> None:
        super().__init__(ClientNotFound.text)


class AweJobNotFound(NotFound):
    code = "job-not-found"

    def __init__(self, job_id: str) -> None:
        super().__init__(f"job not found: {job_id[:64]}")


class WorkNotFound(NotFound):
    code = "task-not-found"

    def __init__(self, work_id: str) -> None:
        super().__init__(f"workunit not found: {work_id[:160]}")


class DocumentInvalid(Invalid):
    """An AWE document that cannot run; the faults are sentences."""

    code = "invalid-document"

    def __init__(self, texts: Sequence[str]) -> None:
        faults = [{"pointer": "", "code": self.code, "message": text} for text in texts]
        super().__init__("the document is not valid", faults=faults)
