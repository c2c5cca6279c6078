"""Map a JWT of the deployment's OIDC issuer to its actor."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, TypeGuard

from shardmill.aws.settings import OidcSettings
from shardmill.engine.access import jwt
from shardmill.engine.access.issuer import Issuer
from shardmill.model.access.claims import grants_of, user_of
from shardmill.model.actor import Actor

LEEWAY_SECONDS = 60


class OidcTokens:
    def __init__(self, settings: OidcSettings, issuer: Issuer | None = None) -> None:
        self._settings = settings
        self._issuer = issuer or Issuer(settings.issuer)

    def actor(self, token: str, now: int) -> Actor | None:
        """The actor of a JWT, or None if it is not valid. Raises IssuerUnavailable.

        The claims are checked before keys are fetched, so that foreign tokens cause no requests.
        """
        parsed = jwt.parse(token)
        if not parsed or not self._is_current(parsed.claims, now // 1000):
            return None
        user = user_of(parsed.claims, self._settings.user_claim)
        subject = parsed.claims.get("sub")
        if not user or not isinstance(subject, str):
            return None
        if not any(jwt.is_signed_by(parsed, key) for key in self._issuer.keys(parsed.key_id)):
            return None
        return Actor(user, grants_of(parsed.claims, self._settings.scopes_claim), self._id_of(subject))

    def _is_current(self, claims: Mapping[str, Any], now: int) -> bool:
        expires, begins = claims.get("exp"), claims.get("nbf", 0)
        return (
            claims.get("iss") == self._settings.issuer
            and self._settings.audience in _audiences(claims)
            and _is_number(expires)
            and _is_number(begins)
            and begins - LEEWAY_SECONDS <= now < expires + LEEWAY_SECONDS
        )

    def _id_of(self, subject: str) -> str:
        """Used like the id of a token: workers belong to the subject, not to one of its JWTs."""
        return "oidc-" + hashlib.sha256(f"{self._settings.issuer}\0{subject}".encode()).hexdigest()[:16]


def _audiences(claims: Mapping[str, Any]) -> list[Any]:
    """The audiences of a token; access tokens of Amazon Cognito have a `client_id` instead."""
    audience = claims.get("aud", claims.get("client_id"))
    return audience if isinstance(audience, list) else [audience]


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
