"""The exceptions of access: no token, a token without the scope, tokens that do not exist, and limits."""

from __future__ import annotations

from shardmill.engine.errors import Conflict, MillError, NotFound


class Unauthorized(MillError):
    code = "unauthorized"

    def __init__(self) -> None:
        super().__init__("no valid token; send the header `Authorization: Bearer <token>`")
        self.headers = {"www-authenticate": "Bearer"}


class Forbidden(MillError):
    """The token is valid, but its scopes do not allow the request."""

    code = "forbidden"


class TooManyRequests(MillError):
    """The token sends more requests than the deployment allows."""

    code = "too-many-requests"

    def __init__(self, seconds: int) -> None:
        super().__init__(f"the token sends too many requests; retry after {seconds} s")
        self.headers = {"retry-after": str(seconds)}


class TokenNotFound(NotFound):
    code = "token-not-found"

    def __init__(self, token_id: str) -> None:
        super().__init__(f"there is no token {token_id[:64]!r}; it was revoked, or it expired long ago")


class LimitReached(Conflict):
    """The application has reached a limit of the deployment: definitions, Jobs, tasks, schedules or bytes."""

    code = "limit-reached"
