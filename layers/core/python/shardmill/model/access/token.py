"""Tokens as requests and answers show them."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import AfterValidator, ConfigDict, Field, model_serializer, model_validator
from pydantic_core import PydanticCustomError

from shardmill.model.access.claims import IAM_PREFIX, RESERVED, is_reserved
from shardmill.model.access.grants import LIMITS, SCOPES, Grant, Scope, encode, from_document, to_document
from shardmill.model.base import Answer, Name, Request, Time
from shardmill.model.json_schema import absent, either, where

MAX_SCOPES_BYTES = 4_000
"""API Gateway passes the scopes of a token on with each request."""
MAX_OVERLAP_SECONDS = 30 * 86_400

_PATTERN = r"^[_a-zA-Z][_a-zA-Z0-9-]*\*?$"


def _not_reserved(text: str) -> str:
    if is_reserved(text.strip()):
        names = ", ".join(sorted(RESERVED))
        raise PydanticCustomError("reserved-name", f"is one of {names}, or begins with {IAM_PREFIX}")
    return text


Label = Annotated[
    str, Field(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f\x7f]+$"), AfterValidator(_not_reserved)
]
Pattern = Annotated[str, Field(max_length=65, pattern=_PATTERN)]
Application = Annotated[str, Field(min_length=1, max_length=128)]


def _or_name(schema: dict[str, Any]) -> None:
    """Describe a scope: its name alone, or an object with limits; a worker is limited to groups only."""
    limited = dict(schema)
    others = [name for name in SCOPES if name != "worker"]
    limited |= either(where(scope={"enum": others}), absent("definitions", "applications"))
    schema.clear()
    schema |= {"description": limited.pop("description"), **either({"enum": list(SCOPES)}, limited)}


class GrantedScope(Request):
    """A scope, by its name alone or with limits; a resource must be within each limit that is given."""

    model_config = ConfigDict(json_schema_extra=_or_name)

    scope: Scope
    definitions: list[Pattern] | None = Field(
        default=None,
        min_length=1,
        max_length=50,
        description="names of definitions; * at the end is a prefix",
    )
    applications: list[Application] | None = Field(default=None, min_length=1, max_length=50)
    groups: list[Name] | None = Field(default=None, min_length=1, max_length=50)

    @model_validator(mode="before")
    @classmethod
    def _accept_name(cls, data: Any) -> Any:
        return {"scope": data} if isinstance(data, str) else data

    @model_validator(mode="after")
    def _worker_has_groups_only(self) -> Self:
        if self.scope == "worker" and (self.definitions or self.applications):
            raise PydanticCustomError("bad-value", "worker can be limited to groups only")
        return self

    @model_serializer(mode="plain")
    def _as_document(self) -> Any:
        return to_document(self.grant())

    def grant(self) -> Grant:
        limits = {name: getattr(self, name) for name in LIMITS}
        return from_document({"scope": self.scope, **limits})


class TokenRequest(Request):
    """A token to create; `owner` is recorded as the user of its actions, by default its name."""

    name: Label
    owner: Label | None = None
    scopes: list[GrantedScope] = Field(min_length=1, max_length=20)
    expires: Time | None = Field(default=None, description="when it expires; default: never", strict=False)

    @model_validator(mode="after")
    def _scopes_fit(self) -> Self:
        if len(encode(self.grants())) > MAX_SCOPES_BYTES:
            raise PydanticCustomError(
                "too-large", f"the scopes are larger than {MAX_SCOPES_BYTES} bytes; use prefixes"
            )
        return self

    def grants(self) -> list[Grant]:
        return [each.grant() for each in self.scopes]


class Rotation(Request):
    overlap_seconds: int = Field(
        default=86_400, ge=0, le=MAX_OVERLAP_SECONDS, description="how long the present secret stays valid"
    )


class Caller(Answer):
    """The token of a request: its owner and its scopes."""

    name: str = Field(description="recorded as the user of its actions")
    token_id: str | None = Field(default=None, description="null for the admin token of the deployment")
    scopes: list[GrantedScope]


class Token(Answer):
    """A token without its secret."""

    id: str
    name: str
    owner: str
    scopes: list[GrantedScope]
    expires: Time | None = None
    create_time: Time
    create_user: str
    rotate_time: Time | None = Field(default=None, description="when its secret was last replaced")
    overlap_until: Time | None = Field(default=None, description="when the earlier secrets expire")
    last_use_time: Time | None = Field(default=None, description="accurate to an hour")


class IssuedToken(Token):
    """A token with its secret, which is not shown again."""

    token: str
