"""The URL and token of the API: given, from the environment, or of a running `shardmill dev`.

With SHARDMILL_AUTH=iam, requests have no token: they are signed with the AWS credentials of the process.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from shardmill.client.dev_session import Session, find_session
from shardmill.client.errors import NotConnected

if TYPE_CHECKING:
    import httpx

_LOOPBACK = {"127.0.0.1", "localhost", "::1"}
_SIGNED_ROUTES = "/iam"


@dataclass(frozen=True, slots=True)
class Connection:
    url: str
    token: str = field(repr=False)
    signed: bool = False
    """Requests are signed with AWS credentials, and have no token."""

    @property
    def api(self) -> str:
        """The URL that paths of the API are appended to."""
        return self.url + (_SIGNED_ROUTES if self.signed else "")

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.signed else {"authorization": f"Bearer {self.token}"}

    def auth(self) -> httpx.Auth | None:
        """The signer of requests, if they are signed."""
        if not self.signed:
            return None
        from shardmill.client.signing import SignedRequests  # imports botocore, which tokens do not need

        return SignedRequests()

    @property
    def loopback(self) -> bool:
        return urlsplit(self.url).hostname in _LOOPBACK


def connection(
    url: str | None = None,
    token: str | None = None,
    find: Callable[[], Session | None] = find_session,
    *,
    worker: bool = False,
) -> Connection:
    """Find the URL and token; a token of a running `dev` is used with its URL only.

    `worker`: use the token for workers of `dev`, not its admin token.
    """
    url = url or os.environ.get("SHARDMILL_URL")
    if _signs():
        if not url:
            raise NotConnected("SHARDMILL_AUTH is iam: set the URL of the API with --url or SHARDMILL_URL")
        return Connection(_checked_url(_normalized(url).removesuffix(_SIGNED_ROUTES)), "", signed=True)
    token = token or os.environ.get("SHARDMILL_TOKEN")
    if not (url and token):
        session = find()
        if session and (not url or _normalized(url) == _normalized(session.url)):
            own = session.worker_token if worker else session.token
            url, token = session.url, token or own or session.token
    if not url:
        raise NotConnected(
            "the URL of Shardmill is not set: start it on this machine with `shardmill dev`, or set the URL "
            "and token with --url and --token or in SHARDMILL_URL and SHARDMILL_TOKEN"
        )
    if not token:
        raise NotConnected(f"no token for {url} is set: use --token or SHARDMILL_TOKEN")
    return Connection(_checked_url(_normalized(url)), _checked_token(token.strip()))


def _signs() -> bool:
    way = os.environ.get("SHARDMILL_AUTH") or "token"
    if way not in ("token", "iam"):
        raise NotConnected(f"SHARDMILL_AUTH must be token or iam, not {way[:64]!r}")
    return way == "iam"


def _normalized(url: str) -> str:
    return url.strip().rstrip("/")


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        valid = False
    if not valid or parts.query or parts.fragment or not url.isprintable() or " " in url:
        raise NotConnected(f"{url!r} is not a valid URL of an API, such as https://api.example.org")
    return url


def _checked_token(token: str) -> str:
    if not token.isascii() or not token.isprintable() or " " in token:
        raise NotConnected("the token contains invalid characters")
    return token
