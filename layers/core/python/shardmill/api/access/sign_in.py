"""/v1/sign-in: how the dashboard gets a token; callers have none yet."""

from __future__ import annotations

from functools import cache
from urllib.parse import urlsplit

from pydantic import Field

from shardmill.aws.observability import logger
from shardmill.aws.settings import OidcSettings
from shardmill.engine.access.issuer import Issuer, IssuerUnavailable
from shardmill.model.base import Answer


class OidcSignIn(Answer):
    """The endpoints of the issuer, for the authorization code flow with PKCE."""

    authorization_endpoint: str
    token_endpoint: str
    client_id: str
    scope: str


class SignIn(Answer):
    oidc: OidcSignIn | None = Field(default=None, description="null if the page asks for a token")


def sign_in() -> SignIn:
    """Get the way to sign in to the dashboard: with an OIDC issuer, or with a token. Needs no token."""
    settings = OidcSettings.from_environment()
    if not settings or not settings.client_id:
        return SignIn()
    try:
        found = _issuer(settings.issuer).endpoints()
        authorization, token = str(found["authorization_endpoint"]), str(found["token_endpoint"])
    except (IssuerUnavailable, KeyError) as error:
        extra = {"action": "oidc-unavailable", "error": str(error)}
        logger.warning("the OIDC issuer did not answer; the dashboard asks for a token", extra=extra)
        return SignIn()
    return SignIn(
        oidc=OidcSignIn(
            authorization_endpoint=authorization,
            token_endpoint=token,
            client_id=settings.client_id,
            scope=" ".join(dict.fromkeys(["openid", *settings.client_scopes.split()])),
        )
    )


def token_origin() -> str:
    """The origin besides its own that the dashboard may send requests to; empty if there is none."""
    if not (found := sign_in().oidc):
        return ""
    parts = urlsplit(found.token_endpoint)
    return f"{parts.scheme}://{parts.netloc}"


@cache
def _issuer(url: str) -> Issuer:
    return Issuer(url)
