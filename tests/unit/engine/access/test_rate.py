"""The rate of a token: counted in memory, shared in parts, exact to a twentieth for each process."""

from __future__ import annotations

import pytest

from shardmill.engine.access.rate import PARTS, WINDOW_SECONDS, TokenRates

NOW = 1_700_000_000_000


class Shared:
    """The counts that processes share, and how often they did."""

    def __init__(self) -> None:
        self.totals: dict[tuple[str, int], int] = {}
        self.writes = 0
        self.up = True

    def add(self, token_id: str, window: int, count: int) -> int | None:
        self.writes += 1
        if not self.up:
            return None
        self.totals[token_id, window] = self.totals.get((token_id, window), 0) + count
        return self.totals[token_id, window]


def accepted(rates: TokenRates, requests: int, token_id: str = "t", now: int = NOW) -> int:
    return sum(rates.wait_seconds(token_id, now) == 0 for _ in range(requests))


def test_one_process_accepts_exactly_the_limit_in_a_window() -> None:
    rates = TokenRates(10, Shared().add)
    assert accepted(rates, 500) == 10 * WINDOW_SECONDS
    assert accepted(rates, 500, "another") == 100, "each token has a limit of its own"
    assert rates.wait_seconds("t", NOW + 3_000) == WINDOW_SECONDS - (NOW // 1000 + 3) % WINDOW_SECONDS
    assert accepted(rates, 500, now=NOW + WINDOW_SECONDS * 1000) == 100


@pytest.mark.parametrize("processes", [2, 10, 40])
def test_many_processes_together_exceed_it_by_a_part_each_at_most(processes: int) -> None:
    shared = Shared()
    pool = [TokenRates(20, shared.add) for _ in range(processes)]
    limit = 20 * WINDOW_SECONDS
    total = sum(accepted(pool[number % processes], 1) for number in range(50 * limit))
    assert limit <= total <= limit + processes * (limit // PARTS)


def test_requests_cost_no_write_until_they_are_a_part_of_the_limit() -> None:
    shared = Shared()
    rates = TokenRates(100, shared.add)
    assert accepted(rates, 49) == 49
    assert shared.writes == 0
    accepted(rates, 10_000)
    assert shared.writes == PARTS, "rejected requests are not written"


def test_without_the_shared_count_each_process_has_the_limit() -> None:
    shared = Shared()
    shared.up = False
    assert accepted(TokenRates(10, shared.add), 500) == 100
