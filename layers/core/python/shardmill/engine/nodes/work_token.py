"""Work tokens: a client of the AWE protocol sends one to the node store for one attempt at a task.

Clients send no group token to a node store, but the data token of their workunit. A work token names the
attempt, so that it reads and writes the files of that attempt and ends with it. It is not stored: a keyed
hash proves that this deployment made it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from typing import NamedTuple

PREFIX = "smw_"
_PURPOSE = b"work-token."


class WorkToken(NamedTuple):
    """The attempt at a task that a worker holds."""

    job_id: str
    run: int
    step: int
    rank: int
    attempt: int
    worker_id: str


def mint(key: str, work: WorkToken) -> str:
    """The text of a work token. `key` is the secret of the deployment with which tokens are hashed."""
    body = base64.urlsafe_b64encode(json.dumps(work, separators=(",", ":")).encode()).decode().rstrip("=")
    return f"{PREFIX}{body}.{_mac(key, body)}"


def parse(key: str, text: str) -> WorkToken | None:
    """Parse a work token; None if the text is not a work token of this deployment."""
    if not key or not text.startswith(PREFIX) or not text.isascii():
        return None
    body, _, mac = text.removeprefix(PREFIX).partition(".")
    if not hmac.compare_digest(mac, _mac(key, body)):
        return None
    try:
        values = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except (binascii.Error, ValueError):
        return None
    return WorkToken(*values)


def _mac(key: str, body: str) -> str:
    return hmac.new(key.encode(), _PURPOSE + body.encode(), hashlib.sha256).hexdigest()[:40]
