"""Reporting: each result is accepted, replaced by a failure or dropped; none is sent indefinitely."""

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

FINE, TOO_LARGE, POISON = "fine", "too large", "poison"
"""Outputs of results that are accepted, accepted only without the output, and never accepted."""


class ReportServer:
    """Accepts all results of a report, or none."""

    def __init__(self, code: str = "output-too-large") -> None:
        self.code = code
        self.accepted: dict[str, Result] = {}
        self.sent = 0

    def send(self, results: Sequence[Result]) -> list[Reported]:
        self.sent += 1
        for result in results:
            if result.output in (TOO_LARGE, POISON) or result.files or (result.receipt == POISON):
                raise Refused("no result was accepted", self.code)
        self.accepted |= {result.task_id: result for result in results}
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
    st.lists(st.sampled_from([FINE, TOO_LARGE, POISON]), min_size=1, max_size=10),
    st.sampled_from(sorted(PERMANENT_CODES)),
)
def test_each_result_is_reported_independently_of_the_others(kinds: list[str], code: str) -> None:
    server = ReportServer(code)
    reported = report_results(server.send, results(kinds))
    accepted = [f"t{at}" for at, kind in enumerate(kinds) if kind != POISON]
    assert [status.task_id for status in reported] == accepted == list(server.accepted)
    assert server.sent <= 1 + 2 * len(kinds)
    for at, kind in enumerate(kinds):
        if kind == FINE:
            assert (server.accepted[f"t{at}"].outcome, server.accepted[f"t{at}"].output) == ("success", FINE)
        if kind == TOO_LARGE:
            result = server.accepted[f"t{at}"]
            assert result.outcome == "failed-permanent"
            assert result.reason == f"Shardmill refused the result ({code}): no result was accepted"
            assert (result.output, result.stdout, result.stderr) == (None, None, None)
            assert (result.receipt, result.exit_code) == (TOO_LARGE, 0)


def test_a_dropped_result_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        assert report_results(ReportServer().send, results([POISON])) == []
    assert logged(caplog)[-1] == {
        "action": "result-dropped",
        "task": "t0",
        "attempt": 1,
        "error": "no result was accepted",
    }


@pytest.mark.parametrize(
    "error", [Unreachable("connection refused"), Refused("invalid token", "unauthorized")]
)
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


def test_a_result_refused_for_its_files_is_reported_as_failed() -> None:
    server = ReportServer()
    [result] = results([FINE])
    stored = [Stored(name="a", size=1, sha256="0" * 64, attributes={"a": "x"})]
    [status] = report_results(server.send, [result.model_copy(update={"files": stored})])
    assert status.status == "ok"
    [accepted] = server.accepted.values()
    assert (accepted.outcome, accepted.files) == ("failed-permanent", None)
    assert "output-too-large" in (accepted.reason or "")
