"""The text of a token, `sm_<id>_<secret>`, and the keyed hash of it that is stored."""

from __future__ import annotations

import hashlib
import hmac
import re

from shardmill.model.access.grants import from_document
from shardmill.model.actor import Actor
from shardmill.store.access.tokens import TokenRow

_TOKEN = re.compile(r"sm_([a-z2-7]{16})_([A-Za-z0-9_-]{43})")


def text_of(token_id: str, secret: str) -> str:
    return f"sm_{token_id}_{secret}"


def parse_token(text: str) -> tuple[str, str] | None:
    """The id and the secret of a token; None if the text has another form."""
    found = _TOKEN.fullmatch(text)
    return (found[1], found[2]) if found else None


def keyed_hash(token_id: str, secret: str, key: str) -> str:
    """The hash that is stored; it contains the id, so that it is valid in no other row."""
    return hmac.new(key.encode(), f"{token_id}.{secret}".encode(), hashlib.sha256).hexdigest()


def is_valid(row: TokenRow, secret: str, key: str, now: int) -> bool:
    given = keyed_hash(row.id, secret, key)
    return any(hmac.compare_digest(given, known) for known in row.valid_hashes(now))


def actor_of(row: TokenRow) -> Actor:
    return Actor(row.owner, tuple(map(from_document, row.scopes)), row.id)
