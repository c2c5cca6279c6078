"""Tokens and limits, as methods of the Client."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

from shardmill.client.calls import Calls, read, time_text
from shardmill.model.access.token import IssuedToken, Token
from shardmill.model.access.usage import ApplicationLimits

_LIST = "/v1/tokens"


class TokenCalls(Calls):
    def limits(self, application: str = "") -> ApplicationLimits:
        """The limits of an application and its present use."""
        return read(ApplicationLimits, self._http.get("/v1/limits", {"application": application}))

    def tokens(self) -> Iterator[Token]:
        """The tokens by id, without their secrets."""
        return self._list(Token, _LIST)

    def token(self, token_id: str) -> Token:
        return read(Token, self._http.get(_path(token_id)))

    def create_token(
        self,
        name: str,
        scopes: Sequence[str | Mapping[str, Any]],
        *,
        owner: str | None = None,
        expires: datetime | str | None = None,
    ) -> IssuedToken:
        """Create a token. Its `token` is in this answer only.

        `scopes`: names such as "read", or objects such as `{"scope": "submit", "definitions": ["report-*"]}`.
        `owner`: the user that the history shows; default: the name.
        """
        document: dict[str, Any] = {"name": name, "scopes": list(scopes)}
        if owner is not None:
            document["owner"] = owner
        if expires is not None:
            document["expires"] = time_text(expires, "expires")
        return read(IssuedToken, self._http.send("POST", _LIST, document=document))

    def rotate_token(self, token_id: str, overlap_seconds: int | None = None) -> IssuedToken:
        """Replace the secret of a token; the present one stays valid for `overlap_seconds`, default a day."""
        document = {} if overlap_seconds is None else {"overlapSeconds": overlap_seconds}
        return read(IssuedToken, self._http.send("POST", f"{_path(token_id)}:rotate", document=document))

    def revoke_token(self, token_id: str) -> None:
        """Revoke a token: it stops working within a minute."""
        self._http.send("DELETE", _path(token_id))


def _path(token_id: str) -> str:
    return f"{_LIST}/{quote(token_id, safe='')}"
