from __future__ import annotations

import pytest

from shardmill.engine.conflict import MAX_ATTEMPTS, Attempts
from shardmill.engine.errors import Busy
from shardmill.model.errors import Transient


@pytest.mark.parametrize("most", [1, 3, MAX_ATTEMPTS])
def test_the_attempt_after_the_last_is_busy(most: int) -> None:
    attempts = Attempts("the job", most)
    for _ in range(most):
        attempts.begin()
    for _ in range(2):
        with pytest.raises(Busy, match=r"^the job is being modified concurrently; retry$") as caught:
            attempts.begin()
        assert isinstance(caught.value, Transient)
        assert caught.value.headers == {"retry-after": "1"}
