"""Tokens: one row each, found by the id in the token; only keyed hashes of secrets are stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from shardmill.store import keys
from shardmill.store.row_mapping import Row, json_field
from shardmill.store.table import ConditionFailed, Table
from shardmill.store.update import Update

KEEP_EXPIRED_SECONDS = 30 * 86_400
KEEP_RATE_SECONDS = 3_600


class TokenRow(Row):
    """`scopes`: the documents of its grants. `previous`: hashes of earlier secrets and until when."""

    id: str
    name: str
    owner: str
    hash: str
    create_time: int
    create_user: str
    scopes: Sequence[str | Mapping[str, Any]] = json_field(list)
    expires: int | None = None
    previous: Sequence[tuple[str, int]] = json_field(list)
    rotate_time: int | None = None
    last_used: int | None = None
    ttl: int | None = None

    def valid_hashes(self, now: int) -> list[str]:
        """The hashes of the secrets that are valid now; none if the token has expired."""
        if self.expires is not None and now >= self.expires:
            return []
        return [self.hash, *(known for known, until in self.previous if now < until)]


def expiry_of_row(expires: int | None) -> int | None:
    """When DynamoDB deletes the row of a token, in seconds."""
    return None if expires is None else expires // 1000 + KEEP_EXPIRED_SECONDS


class Tokens:
    def __init__(self, table: Table) -> None:
        self._table = table

    def put(self, row: TokenRow) -> None:
        """Store a new token; a repeated call with the same row has no effect."""
        try:
            self._table.put_new({**keys.token(row.id), **row.to_item()})
        except ConditionFailed as error:
            if not error.old or error.old.get("hash") != row.hash:
                raise

    def get(self, token_id: str) -> TokenRow | None:
        item = self._table.get(keys.token(token_id))
        return TokenRow.from_item(item) if item else None

    def page(self, *, after: str | None, limit: int) -> Iterator[TokenRow]:
        """The tokens by id; those after the id `after`."""
        start = keys.token(after) if after else None
        partition = keys.partition_of(keys.token(""))
        items = self._table.query(partition, consistent=True, limit=limit, start=start)
        return map(TokenRow.from_item, items)

    def replace_secret(self, row: TokenRow, changed: TokenRow) -> TokenRow | None:
        """Store another secret unless the token was rotated or revoked since it was read; else None."""
        item = changed.to_item()
        update = Update(keys.token(row.id)).set_all(
            {name: item.get(name) for name in ("hash", "previous", "rotate_time")}
        )
        try:
            return TokenRow.from_item(self._table.update(update.if_equal(hash=row.hash), returns="ALL_NEW"))
        except ConditionFailed:
            return None

    def record_use(self, row: TokenRow, now: int) -> None:
        """Record a use unless another function has done so since the row was read, or revoked the token."""
        update = Update(keys.token(row.id)).set(last_used=now).if_exists("hash")
        try:
            self._table.update(update.if_equal(last_used=row.last_used))
        except ConditionFailed:
            return

    def delete(self, token_id: str) -> bool:
        """Delete a token; False if it did not exist."""
        return bool(self._table.delete(keys.token(token_id)))


class Rates:
    """How many requests of a token the processes of the API counted in a window of time: one row each."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def add(self, token_id: str, window: int, count: int, now: int) -> int:
        """Add to the count of a token; return the total. A repeated call counts twice: safe, but stricter."""
        expiry = now // 1000 + KEEP_RATE_SECONDS
        update = Update(keys.token_rate(token_id, window)).add(used=count).set(ttl=expiry)
        return int(self._table.update(update, returns="ALL_NEW")["used"])
