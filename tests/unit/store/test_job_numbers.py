"""Numbers of jobs: unique, and in the order of submission to within a second."""

from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from shardmill.store.job_numbers import KEEP_MS, JobNumbers
from shardmill.store.table import Table
from shardmill.store.update import Update


class Counter:
    """A table with one counter."""

    def __init__(self) -> None:
        self.value = 0
        self.writes = 0

    def update(self, update: Update, *, returns: str) -> dict[str, Any]:
        [amount] = update.values.values()
        self.value += amount
        self.writes += 1
        return {"value": self.value}


def _processes(count: int) -> tuple[Counter, list[JobNumbers]]:
    counter = Counter()
    return counter, [JobNumbers(cast(Table, counter)) for _ in range(count)]


submissions = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 400)), max_size=60)


@given(submissions)
def test_numbers_are_unique_and_grow_from_one_second_to_the_next(steps: list[tuple[int, int]]) -> None:
    _, processes = _processes(3)
    now, given_out = 1_000_000, []
    for process, later in steps:
        now += later
        given_out.append((now, processes[process].next(now)))
    assert len({number for _, number in given_out}) == len(given_out)
    for time, number in given_out:
        assert all(number > earlier for before, earlier in given_out if time - before > KEEP_MS)


def test_a_process_that_submits_rarely_leaves_no_gaps() -> None:
    counter, [numbers] = _processes(1)
    assert [numbers.next(minute * 60_000) for minute in range(5)] == [1, 2, 3, 4, 5]
    assert counter.writes == 5


def test_a_thousand_jobs_a_second_take_less_than_half_the_writes_of_the_counter() -> None:
    """Fifty processes, each with twenty submissions a second, for ten seconds."""
    counter, processes = _processes(50)
    for time in range(0, 10_000, 50):
        for process in processes:
            process.next(time)
    assert counter.writes / 10 < 500


def test_a_clock_that_is_set_back_does_not_reuse_reserved_numbers() -> None:
    _, [numbers] = _processes(1)
    times = [5_000, 5_001, 5_002, 5_003, 1_000, 1_001]
    found = [numbers.next(time) for time in times]
    assert len(set(found)) == len(found)
