"""The OIDC issuer of a deployment: its endpoints and keys, fetched over HTTPS and kept in memory."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from shardmill.aws.observability import logger
from shardmill.model.errors import Transient

KEEP_SECONDS = 600.0
"""How long a key that the issuer withdrew may still be accepted."""
AGAIN_SECONDS = 30.0
"""For a token with an unknown key, the keys are fetched again, but at most this often."""
STALE_SECONDS = 86_400.0
_TIMEOUT_SECONDS = 2.0
_MAX_BYTES = 500_000
_LOOPBACK = ("127.0.0.1", "localhost")


class IssuerUnavailable(Transient):
    """The issuer did not answer, or its answer is not valid."""


@dataclass(slots=True)
class Issuer:
    """`fetch` and `clock` are arguments for tests."""

    url: str
    fetch: Callable[[str], Any] = field(default_factory=lambda: fetch_json)
    clock: Callable[[], float] = time.monotonic
    _endpoints: dict[str, Any] = field(default_factory=dict)
    _keys: list[dict[str, Any]] = field(default_factory=list)
    _fetched: float | None = None
    _tried: float | None = None

    def endpoints(self) -> dict[str, Any]:
        """The discovery document, fetched once. Its issuer must be the one that was asked."""
        if not self._endpoints:
            found = self.fetch(f"{self.url.rstrip('/')}/.well-known/openid-configuration")
            if not isinstance(found, dict) or found.get("issuer") != self.url:
                raise IssuerUnavailable(f"{self.url} has no discovery document of this issuer")
            self._endpoints = found
        return self._endpoints

    def keys(self, key_id: str) -> list[dict[str, Any]]:
        """The keys of this id; fetched again if none is known, or after ten minutes.

        While the issuer does not answer, keys that are known serve for a day.
        """
        now = self.clock()
        if self._is_younger(KEEP_SECONDS, now) and (found := self._with_id(key_id)):
            return found
        if self._tried is None or now - self._tried >= AGAIN_SECONDS:
            self._tried = now
            try:
                self._fetch_keys()
            except IssuerUnavailable as error:
                extra = {"action": "oidc-unavailable", "error": str(error)}
                logger.warning("the OIDC issuer did not answer; the known keys are used", extra=extra)
        if not self._is_younger(STALE_SECONDS, now):
            raise IssuerUnavailable(f"the keys of {self.url} cannot be fetched")
        return self._with_id(key_id)

    def _is_younger(self, seconds: float, now: float) -> bool:
        return self._fetched is not None and now - self._fetched < seconds

    def _fetch_keys(self) -> None:
        answer = self.fetch(str(self.endpoints().get("jwks_uri")))
        keys = answer.get("keys") if isinstance(answer, dict) else None
        if not isinstance(keys, list):
            raise IssuerUnavailable(f"{self.url} has no list of keys")
        self._keys = [key for key in keys if isinstance(key, dict)]
        self._fetched = self.clock()

    def _with_id(self, key_id: str) -> list[dict[str, Any]]:
        return [key for key in self._keys if key.get("kid") == key_id]


def fetch_json(url: str) -> Any:
    """GET a JSON document over HTTPS, or HTTP on loopback; follows no redirects."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme != "https" and (parts.scheme != "http" or host not in _LOOPBACK):
        raise IssuerUnavailable(f"{url} is not an https URL")
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(host, parts.port, timeout=_TIMEOUT_SECONDS)
    try:
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        connection.request("GET", path, headers={"accept": "application/json"})
        answer = connection.getresponse()
        content = answer.read(_MAX_BYTES + 1)
        if answer.status != 200 or len(content) > _MAX_BYTES:
            raise IssuerUnavailable(f"{url} answered {answer.status} with {len(content)} bytes")
        return json.loads(content)
    except (OSError, HTTPException, ValueError) as error:
        raise IssuerUnavailable(f"{url} did not answer: {error}") from error
    finally:
        connection.close()
