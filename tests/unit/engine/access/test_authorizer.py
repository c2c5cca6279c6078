"""The authorizer: one read a minute for each token, overlap, expiry, revocation, and the record of use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from botocore.exceptions import ClientError

from shardmill.engine.access import tokens
from shardmill.engine.authorize import (
    ADMIN,
    TOKEN_CACHE_MS,
    USE_INTERVAL_MS,
    Authorizer,
    actor_of,
    context_of,
    hash_of,
    token_in,
)
from shardmill.model.access.grants import Grant
from shardmill.model.access.token import TokenRequest
from shardmill.model.actor import Actor
from shardmill.store.access.tokens import TokenRow

KEY = "k" * 64
NOW = 1_800_000_000_000
BYTES = bytes(range(42))


class Store:
    """The rows in memory; counts reads and writes."""

    def __init__(self) -> None:
        self.rows: dict[str, TokenRow] = {}
        self.reads = 0
        self.uses: list[int] = []
        self.fails = False

    def put(self, row: TokenRow) -> None:
        self.rows[row.id] = row

    def get(self, token_id: str) -> TokenRow | None:
        self.reads += 1
        return self.rows.get(token_id)

    def page(self, *, after: str | None, limit: int) -> Iterator[TokenRow]:
        return iter(self.rows.values())

    def replace_secret(self, row: TokenRow, changed: TokenRow) -> TokenRow | None:
        self.rows[row.id] = changed
        return changed

    def record_use(self, row: TokenRow, now: int) -> None:
        if self.fails:
            raise ClientError({"Error": {"Code": "InternalServerError"}}, "UpdateItem")
        self.uses.append(now)
        self.rows[row.id] = row.evolve(last_used=now)


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def authorizer(store: Store) -> Authorizer:
    return Authorizer(hash_of("sm_admin"), KEY, lambda: store)  # type: ignore[arg-type,return-value]


def create(store: Store, **fields: object) -> tuple[str, str]:
    request = TokenRequest.model_validate({"name": "ci", "scopes": ["read"], **fields})
    row, text = tokens.create(store, request, ADMIN, NOW, key=KEY, entropy=BYTES)  # type: ignore[arg-type]
    return row.id, text


def rotate(store: Store, token_id: str, overlap: int, seed: int) -> str:
    _, text = tokens.rotate(store, token_id, overlap, NOW, key=KEY, entropy=bytes([seed]) * 32)  # type: ignore[arg-type]
    return text


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer abc", "abc"),
        ("bearer  abc ", "abc"),
        ("Basic abc", ""),
        ("abc", ""),
        ("", ""),
        ("Bearer", ""),
        ("OAuth abc", ""),
    ],
)
def test_the_token_is_taken_from_a_bearer_header(header: str, token: str) -> None:
    assert token_in({"Authorization": header}) == token


def test_other_schemes_are_accepted_where_a_caller_lists_them() -> None:
    assert token_in({"authorization": "OAuth abc"}, ("bearer", "oauth")) == "abc"


def test_the_admin_token_needs_no_store(store: Store, authorizer: Authorizer) -> None:
    assert authorizer.actor("sm_admin", NOW) is ADMIN
    assert store.reads == 0


def test_a_token_has_its_owner_and_scopes_and_survives_the_context(
    store: Store, authorizer: Authorizer
) -> None:
    scopes = ["read", {"scope": "submit", "definitions": ["report-*"], "groups": ["a"]}]
    token_id, text = create(store, owner="alice", scopes=scopes)
    actor = authorizer.actor(text, NOW)
    wanted = (Grant("read"), Grant("submit", definitions=("report-*",), groups=("a",)))
    assert actor == Actor("alice", wanted, token_id)
    assert actor_of(context_of(actor)) == actor
    assert actor_of(context_of(None)) is None
    assert actor_of({"actor": "alice"}) == Actor("alice", ()), "without scopes it may do nothing"


def test_the_secret_is_not_stored(store: Store) -> None:
    token_id, text = create(store)
    assert text.rpartition("_")[2] not in repr(store.rows[token_id].to_item())
    assert hash_of(text) not in repr(store.rows[token_id].to_item()), "the hash has a key"


def test_a_row_is_read_once_a_minute_and_a_revoked_token_stops_then(
    store: Store, authorizer: Authorizer
) -> None:
    token_id, text = create(store)
    for second in range(0, 60, 10):
        assert authorizer.actor(text, NOW + second * 1000)
    assert store.reads == 1
    del store.rows[token_id]
    assert authorizer.actor(text, NOW + TOKEN_CACHE_MS) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[:-1] + ("A" if text[-1] != "A" else "B"),
        lambda text: text.replace("sm_", "sm-"),
        lambda text: text + "x",
        lambda text: text + "\n",
        lambda text: text.upper(),
        lambda text: "sm_" + "a" * 16 + text[19:],
        lambda text: text.rpartition("_")[2],
        lambda _: "",
        lambda _: "sm_",
    ],
)
def test_another_text_is_not_valid(store: Store, authorizer: Authorizer, change: object) -> None:
    _, text = create(store)
    assert authorizer.actor(change(text), NOW) is None  # type: ignore[operator]
    assert store.uses == []


def test_the_secret_of_one_token_is_not_valid_for_another(store: Store, authorizer: Authorizer) -> None:
    token_id, text = create(store)
    other = "b" * 16
    store.rows[other] = store.rows[token_id].evolve(id=other)
    assert authorizer.actor(text.replace(token_id, other), NOW) is None


def test_a_token_expires(store: Store, authorizer: Authorizer) -> None:
    _, text = create(store, expires="2027-01-16T00:00:00Z")
    expires = 1_800_057_600_000
    assert authorizer.actor(text, expires - 1)
    assert authorizer.actor(text, expires) is None


def test_earlier_secrets_are_valid_for_their_overlap(store: Store, authorizer: Authorizer) -> None:
    token_id, first = create(store)
    second = rotate(store, token_id, 60, 1)
    third = rotate(store, token_id, 30, 2)
    assert [bool(authorizer.actor(text, NOW + 1)) for text in (first, second, third)] == [True, True, True]
    later = NOW + 30_000
    assert [bool(authorizer.actor(text, later)) for text in (first, second, third)] == [True, False, True]
    last = rotate(store, token_id, 0, 3)
    much_later = NOW + TOKEN_CACHE_MS
    valid = [bool(authorizer.actor(text, much_later)) for text in (first, second, third, last)]
    assert valid == [False, False, False, True], "without an overlap all earlier secrets stop"


def test_use_is_recorded_once_an_hour(store: Store, authorizer: Authorizer) -> None:
    _, text = create(store)
    for moment in range(NOW, NOW + USE_INTERVAL_MS, 600_000):
        assert authorizer.actor(text, moment)
    assert store.uses == [NOW]
    assert authorizer.actor(text, NOW + USE_INTERVAL_MS)
    assert store.uses == [NOW, NOW + USE_INTERVAL_MS]


def test_a_token_works_if_its_use_cannot_be_recorded(store: Store, authorizer: Authorizer) -> None:
    _, text = create(store)
    store.fails = True
    assert authorizer.actor(text, NOW)
