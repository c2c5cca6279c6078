"""Client groups: worker groups, and the tokens with which clients serve them."""

from __future__ import annotations

from itertools import islice
from typing import Any

from shardmill.engine.access import tokens
from shardmill.engine.access.errors import TokenNotFound
from shardmill.engine.access.visible import Visible
from shardmill.engine.awe.submit import create_groups
from shardmill.engine.errors import GroupInUse, GroupNotFound
from shardmill.engine.groups import groups
from shardmill.engine.mill import Mill
from shardmill.model.access.token import TokenRequest
from shardmill.model.actor import Actor
from shardmill.model.awe.names import ANY_GROUP, plain_name
from shardmill.model.awe.times import awe_time
from shardmill.store.access.tokens import TokenRow
from shardmill.store.rows import GroupRow

TOKEN_NAME = "cgroup"  # noqa: S105 - the name of tokens, not one of them
MAX_GROUPS = 1_000
MAX_TOKENS = 10_000


def create(mill: Mill, name: str, actor: Actor, *, entropy: bytes, now: int) -> dict[str, Any]:
    """Create a group if it does not exist, and a token of it, which is shown only now."""
    group = plain_name(name)
    create_groups(mill, [group], now)
    return issue_token(mill, group, actor, entropy=entropy, now=now)


def issue_token(mill: Mill, name: str, actor: Actor, *, entropy: bytes, now: int) -> dict[str, Any]:
    """Give a group a token; the one that it had stops working within a minute."""
    row = _group(mill, name)
    earlier = _tokens(mill, name)
    served = list(dict.fromkeys((name, ANY_GROUP)))
    request = TokenRequest.model_validate(
        {"name": TOKEN_NAME, "owner": name, "scopes": [{"scope": "worker", "groups": served}]}
    )
    key = mill.settings.token_key
    issued, text = tokens.create(mill.tokens, request, actor, now, key=key, entropy=entropy)
    for token in earlier:
        mill.tokens.delete(token.id)
    return _document(row, issued) | {"token": text}


def revoke_token(mill: Mill, name: str) -> dict[str, Any]:
    row = _group(mill, name)
    found = _tokens(mill, name)
    if not found:
        raise TokenNotFound(name)
    for token in found:
        mill.tokens.delete(token.id)
    return _document(row, None)


def delete(mill: Mill, name: str, visible: Visible) -> dict[str, Any]:
    """Delete a group with its tokens; rejected while jobs that have not ended use it."""
    row = _group(mill, name)
    found = _tokens(mill, name)
    try:
        groups.delete(mill, name, visible)
    except GroupInUse:
        text = f"client group {name} is used by jobs that have not ended; wait for their end, or delete them"
        raise GroupInUse(text) from None
    for token in found:
        mill.tokens.delete(token.id)
    return _document(row, None)


def read(mill: Mill, name: str) -> dict[str, Any]:
    found = _tokens(mill, name)
    return _document(_group(mill, name), found[0] if found else None)


def list_groups(mill: Mill, visible: Visible) -> list[dict[str, Any]]:
    """All groups, each with the known data of its token."""
    rows = islice(mill.groups.page(after=None, limit=MAX_GROUPS), MAX_GROUPS)
    tokens_of = {token.owner: token for token in _group_tokens(mill)}
    return [_document(row, tokens_of.get(row.name)) for row in rows if visible.groups([row.name])]


def group_not_found(name: str) -> GroupNotFound:
    return GroupNotFound(f"client group not found: {name[:64]}; create it with POST /cgroup/{{name}}")


def _group(mill: Mill, name: str) -> GroupRow:
    row = mill.groups.get(name)
    if not row:
        raise group_not_found(name)
    return row


def _tokens(mill: Mill, name: str) -> list[TokenRow]:
    return [token for token in _group_tokens(mill) if token.owner == name]


def _group_tokens(mill: Mill) -> list[TokenRow]:
    rows = islice(mill.tokens.page(after=None, limit=MAX_TOKENS), MAX_TOKENS)
    return [row for row in rows if row.name == TOKEN_NAME]


def _document(row: GroupRow, token: TokenRow | None) -> dict[str, Any]:
    return {
        "id": row.name,
        "name": row.name,
        "ip_cidr": "0.0.0.0/0",
        "created_on": awe_time(row.create_time),
        "last_modified": awe_time(row.update_time),
        "expiration": awe_time(token.expires if token else None),
        "has_token": token is not None,
        "suspended": row.suspended,
    }
