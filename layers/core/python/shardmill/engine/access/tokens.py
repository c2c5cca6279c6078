"""Create, rotate, revoke and show tokens."""

from __future__ import annotations

import base64

from shardmill.engine.access.errors import TokenNotFound
from shardmill.engine.access.token_text import keyed_hash, text_of
from shardmill.engine.conflict import Attempts
from shardmill.engine.errors import Conflict, RequestInvalid
from shardmill.model.access.grants import to_document
from shardmill.model.access.token import GrantedScope, Token, TokenRequest
from shardmill.model.actor import Actor
from shardmill.model.fault import fault
from shardmill.model.timestamps import from_ms, optional_from_ms, to_ms
from shardmill.store.access.tokens import TokenRow, Tokens, expiry_of_row

ID_BYTES = 10
SECRET_BYTES = 32
MAX_PREVIOUS = 5
"""A client may repeat a rotation whose answer was lost, so more than one earlier secret can be in use."""
_TRIES = 5


def create(
    tokens: Tokens, request: TokenRequest, actor: Actor, now: int, *, key: str, entropy: bytes
) -> tuple[TokenRow, str]:
    """Store a new token; return its row and its text. `entropy`: ID_BYTES + SECRET_BYTES random bytes."""
    expires = to_ms(request.expires) if request.expires else None
    if expires is not None and expires <= now:
        wrong = fault(("expires",), "past-time", "must be in the future")
        raise RequestInvalid("the request is not valid", faults=[wrong.model_dump()])
    token_id = base64.b32encode(entropy[:ID_BYTES]).decode().lower()
    secret = _secret(entropy[ID_BYTES:])
    row = TokenRow(
        id=token_id,
        name=request.name,
        owner=request.owner or request.name,
        scopes=[to_document(grant) for grant in request.grants()],
        hash=keyed_hash(token_id, secret, key),
        expires=expires,
        create_time=now,
        create_user=actor.name,
        ttl=expiry_of_row(expires),
    )
    tokens.put(row)
    return row, text_of(token_id, secret)


def rotate(
    tokens: Tokens, token_id: str, overlap_seconds: int, now: int, *, key: str, entropy: bytes
) -> tuple[TokenRow, str]:
    """Replace the secret of a token.

    The present secret stays valid for `overlap_seconds`; with 0, all earlier ones stop working. Raises
    Conflict if too many are valid: none stops working before its time.
    """
    secret = _secret(entropy[:SECRET_BYTES])
    attempts = Attempts(f"the token {token_id!r}", _TRIES)
    while True:
        attempts.begin()
        row = read(tokens, token_id)
        earlier = [(row.hash, now + overlap_seconds * 1000), *row.previous] if overlap_seconds else []
        valid = [each for each in earlier if now < each[1]]
        if len(valid) > MAX_PREVIOUS:
            raise Conflict(
                f"{MAX_PREVIOUS} earlier secrets of the token {token_id!r} are still valid; wait until an "
                "overlap ends, or rotate without one, which ends all of them"
            )
        changed = row.evolve(hash=keyed_hash(token_id, secret, key), previous=valid, rotate_time=now)
        stored = tokens.replace_secret(row, changed)
        if stored:
            return stored, text_of(token_id, secret)


def read(tokens: Tokens, token_id: str) -> TokenRow:
    row = tokens.get(token_id)
    if not row:
        raise TokenNotFound(token_id)
    return row


def revoke(tokens: Tokens, token_id: str) -> None:
    if not tokens.delete(token_id):
        raise TokenNotFound(token_id)


def view(row: TokenRow, now: int) -> Token:
    untils = [until for _, until in row.previous if now < until]
    return Token(
        id=row.id,
        name=row.name,
        owner=row.owner,
        scopes=[GrantedScope.model_validate(each) for each in row.scopes],
        expires=optional_from_ms(row.expires),
        create_time=from_ms(row.create_time),
        create_user=row.create_user,
        rotate_time=optional_from_ms(row.rotate_time),
        overlap_until=optional_from_ms(max(untils, default=None)),
        last_use_time=optional_from_ms(row.last_used),
    )


def _secret(entropy: bytes) -> str:
    return base64.urlsafe_b64encode(entropy).decode().rstrip("=")
