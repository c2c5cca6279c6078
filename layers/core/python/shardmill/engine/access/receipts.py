"""Receipts that workers get over HTTP: signed, because they name the message that a report deletes.

A worker can use a receipt only for the task that it was issued for, and only as the worker that got it.
"""

from __future__ import annotations

import hashlib
import hmac

_DIGITS = 32


def sign(receipt: str, task_id: str, worker_id: str, key: str) -> str:
    return _mac(receipt, task_id, worker_id, key) + receipt


def verified(signed: str, task_id: str, worker_id: str, key: str) -> str | None:
    """The receipt, or None if it was not issued to this worker for this task."""
    mac, receipt = signed[:_DIGITS], signed[_DIGITS:]
    known = _mac(receipt, task_id, worker_id, key)
    return receipt if hmac.compare_digest(mac.encode(), known.encode()) else None


def _mac(receipt: str, task_id: str, worker_id: str, key: str) -> str:
    text = f"receipt\0{task_id}\0{worker_id}\0{receipt}"
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()[:_DIGITS]
