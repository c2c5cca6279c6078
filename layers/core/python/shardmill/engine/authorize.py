"""Authenticate a request: map the token in its header to an Actor."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from shardmill.aws.observability import logger
from shardmill.aws.settings import OidcSettings, TokenSettings
from shardmill.model.access import grants
from shardmill.model.actor import Actor

if TYPE_CHECKING:
    from shardmill.engine.access.oidc import OidcTokens
    from shardmill.store.access.tokens import TokenRow, Tokens

ADMIN = Actor("admin")
TOKEN_PREFIX = "sm_"  # noqa: S105 - not a secret
SCHEMES = ("bearer",)
AWE_SCHEMES = ("bearer", "cg_token", "oauth", "mgrast")
"""The schemes that clients and submitters of the AWE protocol send; all of them carry tokens of this API."""
TOKEN_CACHE_MS = 60_000
"""How long a revoked token may still work, because functions cache the rows of tokens."""
USE_INTERVAL_MS = 3_600_000
_MAX_CACHED = 10_000


def token_from(entropy: bytes) -> str:
    """Return a new admin token. Its prefix distinguishes it from a hash and lets secret scanners find it."""
    return TOKEN_PREFIX + base64.urlsafe_b64encode(entropy).decode().rstrip("=")


def hash_of(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def token_in(headers: Mapping[str, str], schemes: Collection[str] = SCHEMES) -> str:
    """Return the token of the Authorization header; empty if its scheme is not one of `schemes`."""
    header = next((value for name, value in headers.items() if name.lower() == "authorization"), "")
    scheme, _, token = header.strip().partition(" ")
    return token.strip() if scheme.lower() in schemes else ""


def schemes_of(path: str) -> Collection[str]:
    """The schemes of the Authorization header that a path accepts."""
    return AWE_SCHEMES if path.split("/")[1:2] in (["awe"], ["node"]) else SCHEMES


class Authorizer:
    """Finds the actors of tokens. Reads the row of a token at most once a minute.

    `connect` returns the store of tokens; it is called when the first token other than the admin's arrives.
    """

    def __init__(
        self, admin_hash: str, key: str, connect: Callable[[], Tokens], oidc: OidcSettings | None = None
    ) -> None:
        self._admin_hash = admin_hash
        self._key = key
        self._connect = connect
        self._oidc = oidc
        self._oidc_tokens: OidcTokens | None = None
        self._rows: dict[str, tuple[int, TokenRow]] = {}

    def actor(self, token: str, now: int) -> Actor | None:
        """Return the actor of a token, or None if it is not valid."""
        if hmac.compare_digest(hash_of(token), self._admin_hash):
            return ADMIN
        if self._oidc and token.count(".") == 2:
            return self._of_issuer(self._oidc, token, now)
        from shardmill.engine.access import (
            token_text,
        )  # the admin token needs neither this module nor DynamoDB

        parsed = token_text.parse_token(token)
        if not parsed:
            return None
        row = self._cached(parsed[0], now)
        if not row or not token_text.is_valid(row, parsed[1], self._key, now):
            row = self._read(parsed[0], now)  # the token may have been rotated since
        if not row or not token_text.is_valid(row, parsed[1], self._key, now):
            return None
        if now - (row.last_used or 0) >= USE_INTERVAL_MS:
            self._record_use(row, now)
        return token_text.actor_of(row)

    def _of_issuer(self, settings: OidcSettings, token: str, now: int) -> Actor | None:
        if not self._oidc_tokens:
            from shardmill.engine.access.oidc import OidcTokens  # few deployments have an issuer

            self._oidc_tokens = OidcTokens(settings)
        return self._oidc_tokens.actor(token, now)

    def _record_use(self, row: TokenRow, now: int) -> None:
        """Record a use, best effort: a token works even if DynamoDB rejects the write."""
        from botocore.exceptions import BotoCoreError, ClientError

        from shardmill.model.errors import Transient

        self._rows[row.id] = (self._rows[row.id][0], row.evolve(last_used=now))
        try:
            self._connect().record_use(row, now)
        except (BotoCoreError, ClientError, Transient) as error:
            extra = {"action": "record-token-use", "tokenId": row.id, "error": str(error)}
            logger.warning("failed to record the use of a token; a later use will be", extra=extra)

    def _cached(self, token_id: str, now: int) -> TokenRow | None:
        read_at, row = self._rows.get(token_id, (0, None))
        return row if now - read_at < TOKEN_CACHE_MS else None

    def _read(self, token_id: str, now: int) -> TokenRow | None:
        row = self._connect().get(token_id)
        if len(self._rows) >= _MAX_CACHED:
            self._rows.clear()
        if row:
            self._rows[token_id] = (now, row)
        return row


@cache
def authorizer() -> Authorizer:
    """Return the authorizer of the deployment that this process belongs to."""
    settings = TokenSettings.from_environment()

    @cache
    def connect() -> Tokens:
        from shardmill.aws import clients  # the admin token needs no boto3
        from shardmill.store.access.tokens import Tokens
        from shardmill.store.table import Table

        return Tokens(Table(clients.dynamodb(), settings.table))

    return Authorizer(settings.admin_hash, settings.key, connect, OidcSettings.from_environment())


def context_of(actor: Actor | None) -> dict[str, str]:
    """The context that the authorizer passes to the API; `actor_of` reads it."""
    if not actor:
        return {"actor": ""}
    return {"actor": actor.name, "token": actor.token_id, "scopes": grants.encode(actor.grants)}


def actor_of(context: Mapping[str, Any]) -> Actor | None:
    """Return the actor that the authorizer found; without scopes, it may do nothing."""
    name = context.get("actor")
    if not name:
        return None
    return Actor(name, grants.decode(context.get("scopes") or "[]"), context.get("token") or "")
