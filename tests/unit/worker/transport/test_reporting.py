"""Reporting: every result is taken, taken as a failure, or given up; none is sent for ever."""

import logging
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmill.model.transfers import Stored
from shardmill.model.worker import Reported, Result
from shardmill.worker.transport.base import Refused, Unreachable
from shardmill.worker.transport.reporting import PERMANENT_CODES, report_results
from support.worker_log import logged

FINE, HEAVY, POISON = "fine", "heavy", "poison"
"""What is taken; what is not taken for what it brings along; what is never taken."""


class Counter:
    """Takes all results of a report, or none."""

    def __init__(self, code: str = "output-too-large") -> None:
        self.code = code
        self.taken: dict[str, Result] = {}
        self.sent = 0

    def send(self, results: Sequence[Result]) -> list[Reported]:
        self.sent += 1
        for result in results:
            if result.output in (HEAVY, POISON) or result.files or (result.receipt == POISON):
                raise Refused("nothing was taken", self.code)
        self.taken |= {result.task_id: result for result in results}
        return [Reported(task_id=each.task_id, attempt=each.attempt, status="ok") for each in results]


def results(kinds: Sequence[str]) -> list[Result]:
    return [
        Result(
            task_id=f"t{at}",
            attempt=1,
            outcome="success",
            exit_code=0,
            output=kind,
            stdout="out",
            stderr="err",
            receipt=kind,
        )
        for at, kind in enumerate(kinds)
    ]


@given(
    st.lists(st.sampled_from([FINE, HEAVY, POISON]), min_size=1, max_size=10),
    st.sampled_from(sorted(PERMANENT_CODES)),
)
def test_each_result_is_reported_independently_of_the_others(kinds: list[str], code: str) -> None:
    counter = Counter(code)
    answers = report_results(counter.send, results(kinds))
    taken = [f"t{at}" for at, kind in enumerate(kinds) if kind != POISON]
    assert [answer.task_id for answer in answers] == taken == list(counter.taken)
    assert counter.sent <= 1 + 2 * len(kinds)
    for at, kind in enumerate(kinds):
        if kind == FINE:
            assert (counter.taken[f"t{at}"].outcome, counter.taken[f"t{at}"].output) == ("success", FINE)
        if kind == HEAVY:
            result = counter.taken[f"t{at}"]
            assert result.outcome == "failed-permanent"
            assert result.reason == f"Shardmill refused the result ({code}): nothing was taken"
            assert (result.output, result.stdout, result.stderr) == (None, None, None)
            assert (result.receipt, result.exit_code) == (HEAVY, 0)


def test_a_dropped_result_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        assert report_results(Counter().send, results([POISON])) == []
    assert logged(caplog)[-1] == {
        "action": "result-dropped",
        "task": "t0",
        "attempt": 1,
        "error": "nothing was taken",
    }


@pytest.mark.parametrize("error", [Unreachable("away"), Refused("who are you?", "unauthorized")])
def test_other_errors_are_raised(error: Exception) -> None:
    def send(_: Sequence[Result]) -> list[Reported]:
        raise error

    with pytest.raises(type(error)):
        report_results(send, results([FINE, FINE]))


def test_a_long_refusal_still_fits_into_a_reason() -> None:
    sent: list[Result] = []

    def send(results: Sequence[Result]) -> list[Reported]:
        sent.extend(results)
        raise Refused("x" * 5_000, "invalid-request")

    assert report_results(send, results([FINE])) == []
    assert Result.model_validate(sent[-1].model_dump()) == sent[-1]


def test_a_result_that_is_refused_for_its_files_is_a_failure_and_not_sent_for_ever() -> None:
    counter = Counter()
    [result] = results([FINE])
    stored = [Stored(name="a", size=1, sha256="0" * 64, attributes={"a": "x"})]
    [answer] = report_results(counter.send, [result.model_copy(update={"files": stored})])
    assert answer.status == "ok"
    [taken] = counter.taken.values()
    assert (taken.outcome, taken.files) == ("failed-permanent", None)
    assert "output-too-large" in (taken.reason or "")
