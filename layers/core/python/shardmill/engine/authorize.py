"""Authenticate a request: map its bearer token to an Actor."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping

from shardmill.model.actor import Actor

ADMIN = Actor("admin")


def authorize(headers: Mapping[str, str], admin_hash: str) -> Actor | None:
    """Return the Actor of the request's bearer token, or None if there is no valid token."""
    header = next((value for name, value in headers.items() if name.lower() == "authorization"), "")
    scheme, _, token = header.partition(" ")
    digest = hashlib.sha256(token.strip().encode()).hexdigest()
    valid = hmac.compare_digest(digest, admin_hash)
    return ADMIN if valid and scheme.lower() == "bearer" else None
