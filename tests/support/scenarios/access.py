"""Callers with tokens of given scopes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from support.moto.cloud import Cloud
from support.moto.http_api import Answer


@dataclass(frozen=True)
class Caller:
    cloud: Cloud
    token: str

    def __call__(self, method: str, path: str, body: Any = None) -> Answer:
        return self.cloud.http(method, path, body, token=self.token)

    def items(self, path: str) -> list[dict[str, Any]]:
        """All items of a list, page by page."""
        found: list[dict[str, Any]] = []
        cursor = ""
        while True:
            answer = self("GET", f"{path}{'&' if '?' in path else '?'}limit=100{cursor}")
            assert answer.status == 200, answer
            found += answer.json["items"]
            if not answer.json.get("cursor"):
                return found
            cursor = f"&cursor={answer.json['cursor']}"


@dataclass
class Callers:
    """Makes a token for each set of scopes once."""

    cloud: Cloud
    _made: dict[str, Caller] = field(default_factory=dict)

    def with_scopes(self, *scopes: Any, owner: str = "") -> Caller:
        known = repr((scopes, owner))
        if known not in self._made:
            body = {"name": f"caller-{len(self._made)}", "scopes": list(scopes)}
            answer = self.cloud.http("POST", "/v1/tokens", body | ({"owner": owner} if owner else {}))
            assert answer.status == 201, answer
            self._made[known] = Caller(self.cloud, answer.json["token"])
        return self._made[known]
