"""/v1/tokens: create, list, rotate and revoke tokens."""

from __future__ import annotations

from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body

from shardmill.api import pagination
from shardmill.api.pagination import Cursor, Limit, Page
from shardmill.api.responses import JSON, actor, no_content, now
from shardmill.aws.clock import random_bytes
from shardmill.aws.observability import logger
from shardmill.engine.access import tokens
from shardmill.engine.mill import mill
from shardmill.model.access.grants import to_document
from shardmill.model.access.token import (
    Caller,
    GrantedScope,
    IssuedToken,
    Rotation,
    Token,
    TokenRequest,
)
from shardmill.store.access.tokens import TokenRow


def create_token(request: Annotated[TokenRequest, Body()]) -> Response[IssuedToken]:
    """Create a token. Its text is in this answer only: Shardmill stores a hash."""
    entropy = random_bytes(tokens.ID_BYTES + tokens.SECRET_BYTES)
    row, text = tokens.create(mill().tokens, request, actor(), now(), key=_key(), entropy=entropy)
    logger.info("created a token", extra={"action": "create-token", **_named(row.id)})
    headers = {"location": f"/v1/tokens/{row.id}"}
    return Response(status_code=201, content_type=JSON, body=_issued(row, text), headers=headers)


def list_tokens(limit: Limit = pagination.DEFAULT_LIMIT, cursor: Cursor = None) -> Page[Token]:
    """List the tokens by id, without their secrets."""
    rows = mill().tokens.page(after=pagination.decode_cursor(cursor, str), limit=limit + 1)
    return pagination.page(((row.id, tokens.view(row, now())) for row in rows), limit)


def read_caller() -> Caller:
    """Get the name and the scopes of the token of this request."""
    caller = actor()
    scopes = [GrantedScope.model_validate(to_document(grant)) for grant in caller.grants]
    return Caller(name=caller.name, token_id=caller.token_id or None, scopes=scopes)


def read_token(token_id: str) -> Token:
    """Get a token without its secret."""
    return tokens.view(tokens.read(mill().tokens, token_id), now())


def rotate_token(token_id: str, request: Annotated[Rotation | None, Body()] = None) -> IssuedToken:
    """Replace the secret of a token; the present one stays valid for `overlapSeconds`, a day by default."""
    overlap = (request or Rotation()).overlap_seconds
    entropy = random_bytes(tokens.SECRET_BYTES)
    row, text = tokens.rotate(mill().tokens, token_id, overlap, now(), key=_key(), entropy=entropy)
    logger.info("rotated a token", extra={"action": "rotate-token", **_named(row.id)})
    return _issued(row, text)


def revoke_token(token_id: str) -> Response[None]:
    """Revoke a token: it stops working within a minute."""
    tokens.revoke(mill().tokens, token_id)
    logger.info("revoked a token", extra={"action": "revoke-token", **_named(token_id)})
    return no_content()


def _issued(row: TokenRow, text: str) -> IssuedToken:
    return IssuedToken(**dict(tokens.view(row, now())), token=text)


def _key() -> str:
    return mill().settings.token_key


def _named(token_id: str) -> dict[str, str]:
    """The keys of a log line about a token: its id, and the user who changed it."""
    return {"tokenId": token_id, "user": actor().name}
