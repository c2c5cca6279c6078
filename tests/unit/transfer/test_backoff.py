"""Retries with exponential backoff."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmill.transfer.backoff import Backoff, retry

STEADY = Backoff(attempts=3, first_delay=1, max_delay=5, random=lambda: 1)


class Flaky:
    """Fails with the given errors, then returns; counts its calls and records the sleeps between them."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.calls = 0
        self.slept: list[float] = []

    def __call__(self) -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"


def test_delays_grow_exponentially_and_half_of_each_is_random() -> None:
    assert [STEADY.delay(failures) for failures in (1, 2, 3, 4, 1000)] == [1, 2, 4, 5, 5]
    assert Backoff(first_delay=1, random=lambda: 0).delay(1) == 0.5


def test_a_call_is_retried_until_it_succeeds() -> None:
    call = Flaky(OSError("a"), OSError("b"))
    assert retry(call, STEADY, on=OSError, sleep=call.slept.append) == "done"
    assert call.calls == 3
    assert call.slept == [1, 2]


def test_the_last_error_is_raised_when_the_attempts_run_out() -> None:
    call = Flaky(*[OSError(str(number)) for number in range(5)])
    with pytest.raises(OSError, match="2"):
        retry(call, STEADY, on=OSError, sleep=call.slept.append)
    assert call.calls == 3


def test_other_errors_are_raised_at_once() -> None:
    call = Flaky(ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        retry(call, STEADY, on=OSError, sleep=call.slept.append)
    assert call.calls == 1
    assert call.slept == []


@given(st.integers(0, 50))
def test_a_call_without_a_limit_is_retried_until_it_succeeds(failures: int) -> None:
    call = Flaky(*[OSError()] * failures)
    assert retry(call, Backoff(attempts=None), on=OSError, sleep=call.slept.append) == "done"
    assert call.calls == failures + 1


def test_progress_resets_the_count_of_attempts() -> None:
    call = Flaky(*[OSError()] * 10)
    retry(call, STEADY, on=OSError, sleep=call.slept.append, progress=lambda: call.calls)
    assert call.slept == [1] * 10


def test_a_retry_after_delay_is_honoured_up_to_the_maximum() -> None:
    call = Flaky(OSError("3"), OSError("3600"))
    retry(call, STEADY, on=OSError, sleep=call.slept.append, retry_after=lambda error: float(str(error)))
    assert call.slept == [3, 5]
