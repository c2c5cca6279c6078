"""The user and the grants in the claims of a verified JWT."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shardmill.model.access.grants import LIMITS, SCOPES, Grant, from_document

PREFIX = "shardmill:"
RESERVED = frozenset(("admin", "eventbridge", "shardmill"))
"""User names that the history uses for the admin token, for events and for Shardmill itself."""
IAM_PREFIX = "iam:"
"""A user name with this prefix is a principal of the AWS account."""
MAX_USER = 64


def is_reserved(name: str) -> bool:
    """Whether the name is reserved: no user of a token or an issuer can have it."""
    return name.lower() in RESERVED or name.lower().startswith(IAM_PREFIX)


def user_of(claims: Mapping[str, Any], claim: str) -> str | None:
    """The user name in the claim, which the history shows; None if the claim contains no valid name."""
    name = claims.get(claim)
    if not isinstance(name, str) or not name.isprintable() or not 1 <= len(name.strip()) <= MAX_USER:
        return None
    return None if is_reserved(name.strip()) else name.strip()


def grants_of(claims: Mapping[str, Any], claim: str) -> tuple[Grant, ...]:
    """The grants in a claim: `shardmill:read` among the words of a text, or the items of a list.

    An item may also be an object with limits, as in POST /v1/tokens. Anything else grants nothing.
    """
    value = claims.get(claim)
    items: Sequence[Any] = (
        value.split() if isinstance(value, str) else value if isinstance(value, list) else []
    )
    return tuple(_grants(items))


def _grants(items: Iterable[Any]) -> Iterable[Grant]:
    for item in items:
        if isinstance(item, str) and item.startswith(PREFIX) and item.removeprefix(PREFIX) in SCOPES:
            yield Grant(item.removeprefix(PREFIX))
        elif isinstance(item, dict) and _is_limited_scope(item):
            yield from_document(item)


def _is_limited_scope(item: Mapping[str, Any]) -> bool:
    limits = [value for name, value in item.items() if name != "scope"]
    return (
        item.get("scope") in SCOPES
        and item.keys() <= {"scope", *LIMITS}
        and all(
            isinstance(each, list) and each and all(isinstance(name, str) for name in each) for each in limits
        )
    )
