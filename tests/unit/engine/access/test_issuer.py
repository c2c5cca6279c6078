"""The keys of an OIDC issuer: kept in memory, fetched again for unknown ids, at most every 30 seconds."""

from __future__ import annotations

from typing import Any

import pytest

from shardmill.engine.access.issuer import Issuer, IssuerUnavailable, fetch_json

URL = "https://issuer.example"
DISCOVERY = {"issuer": URL, "jwks_uri": f"{URL}/keys"}


class Endpoint:
    """Answers for the issuer, and counts the requests for its keys."""

    def __init__(self) -> None:
        self.key_id, self.up, self.fetched, self.time = "k1", True, 0, 1000.0
        self.discovery: Any = DISCOVERY

    def fetch(self, url: str) -> Any:
        if not url.endswith("/keys"):
            return self.discovery
        self.fetched += 1
        if not self.up:
            raise IssuerUnavailable("down")
        return {"keys": [{"kid": self.key_id}, "nonsense"]}

    def issuer(self) -> Issuer:
        return Issuer(URL, self.fetch, lambda: self.time)


def test_keys_are_kept_for_ten_minutes() -> None:
    endpoint = Endpoint()
    issuer = endpoint.issuer()
    for _ in range(3):
        assert issuer.keys("k1") == [{"kid": "k1"}]
    assert endpoint.fetched == 1
    endpoint.time += 600
    assert issuer.keys("k1")
    assert endpoint.fetched == 2


def test_an_unknown_key_is_looked_for_at_most_every_30_seconds() -> None:
    endpoint = Endpoint()
    issuer = endpoint.issuer()
    assert issuer.keys("k2") == []
    endpoint.key_id = "k2"
    assert [issuer.keys("k2") for _ in range(100)] == [[]] * 100
    assert endpoint.fetched == 1
    endpoint.time += 30
    assert issuer.keys("k2") == [{"kid": "k2"}]
    assert issuer.keys("k1") == [], "a key that the issuer withdrew"


def test_known_keys_serve_for_a_day_while_the_issuer_does_not_answer() -> None:
    endpoint = Endpoint()
    issuer = endpoint.issuer()
    assert issuer.keys("k1")
    endpoint.up = False
    endpoint.time += 3_600
    assert issuer.keys("k1") == issuer.keys("k1") == [{"kid": "k1"}]
    assert endpoint.fetched == 2
    endpoint.time += 86_400
    for _ in range(2):
        with pytest.raises(IssuerUnavailable):
            issuer.keys("k1")
    assert endpoint.fetched == 3


@pytest.mark.parametrize("discovery", [{**DISCOVERY, "issuer": "https://other.example"}, [], {}])
def test_a_discovery_document_of_another_issuer_is_not_used(discovery: Any) -> None:
    endpoint = Endpoint()
    endpoint.discovery = discovery
    with pytest.raises(IssuerUnavailable):
        endpoint.issuer().keys("k1")


@pytest.mark.parametrize(
    "url", ["http://issuer.example/x", "file:///etc/passwd", "ftp://x/y", "None", "http://169.254.169.254/"]
)
def test_only_https_is_fetched(url: str) -> None:
    with pytest.raises(IssuerUnavailable, match="not an https URL"):
        fetch_json(url)
