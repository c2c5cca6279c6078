"""Where Shardmill is, and its token: as given, from the environment, or from a running `shardmill dev`."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from shardmill.client.errors import NotConnected
from shardmill.local.session import Session, find_session

_LOOPBACK = {"127.0.0.1", "localhost", "::1"}


@dataclass(frozen=True, slots=True)
class Connection:
    url: str
    token: str = field(repr=False)

    @property
    def loopback(self) -> bool:
        return urlsplit(self.url).hostname in _LOOPBACK


def connection(
    url: str | None = None, token: str | None = None, find: Callable[[], Session | None] = find_session
) -> Connection:
    """The token of a running `dev` goes to that `dev` and nowhere else."""
    url = url or os.environ.get("SHARDMILL_URL")
    token = token or os.environ.get("SHARDMILL_TOKEN")
    if not (url and token):
        session = find()
        if session and (not url or _plain(url) == _plain(session.url)):
            url, token = session.url, token or session.token
    if not url:
        raise NotConnected(
            "no Shardmill is known here: start one with `shardmill dev`, or give its address and token "
            "with --url and --token or in SHARDMILL_URL and SHARDMILL_TOKEN"
        )
    if not token:
        raise NotConnected(f"no token for {url} is known: give it with --token or in SHARDMILL_TOKEN")
    return Connection(_checked_url(_plain(url)), _checked_token(token.strip()))


def _plain(url: str) -> str:
    return url.strip().rstrip("/")


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        good = False
    if not good or parts.query or parts.fragment or not url.isprintable() or " " in url:
        raise NotConnected(f"{url!r} is not the address of an API, such as https://api.example.org")
    return url


def _checked_token(token: str) -> str:
    if not token.isascii() or not token.isprintable() or " " in token:
        raise NotConnected("the token contains characters that no token has")
    return token
