"""The corrected clock of a worker that uses AWS directly, with clocks that the test sets."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmill.worker.transport.clock import TOLERANCE, MeasuredClock

BEGIN = 1_800_000_000.25


@dataclass
class Machine:
    """A machine whose wall clock is `offset` seconds ahead of AWS, and `drift` more with each second."""

    offset: float = 0.0
    drift: float = 0.0
    passed: float = 0.0
    slept: float = 0.0
    clock: MeasuredClock = field(init=False)

    def __post_init__(self) -> None:
        self.clock = MeasuredClock(self.wall, lambda: self.passed - self.slept)

    @property
    def aws(self) -> float:
        return BEGIN + self.passed

    def wall(self) -> float:
        return self.aws + self.offset + self.drift * self.passed

    def call(self, before: float = 0.01, after: float = 0.01) -> None:
        """Call AWS, which takes `before` and `after` seconds around reading its clock."""
        sent = self.passed - self.slept
        self.passed += before
        date = formatdate(int(self.aws), usegmt=True)
        self.passed += after
        self.clock.observe(date, sent, self.passed - self.slept)

    def sleep(self, seconds: float) -> None:
        """Suspend the machine: its monotonic clock stands still."""
        self.passed += seconds
        self.slept += seconds

    def error(self) -> float:
        return self.clock.now_ms(self.call) / 1000 - self.aws


CALLS = st.lists(st.tuples(st.floats(0, 3), st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=30)


@given(offset=st.floats(-10_000, 10_000), drift=st.floats(-0.0002, 0.0002), calls=CALLS)
def test_the_error_is_within_the_tolerance_and_the_bounds_of_one_call(
    offset: float, drift: float, calls: Sequence[tuple[float, float, float]]
) -> None:
    machine = Machine(offset, drift)
    for pause, before, after in calls:
        machine.passed += pause
        machine.call(before, after)
    assert abs(machine.error()) <= TOLERANCE + 1.5 + 0.02


@pytest.mark.parametrize("offset", [3.0, -3.0, 3_600.0])
def test_many_calls_narrow_the_bounds(offset: float) -> None:
    machine = Machine(offset)
    for _ in range(40):
        machine.passed += 0.137
        machine.call()
    assert abs(machine.error()) < 0.1


@pytest.mark.parametrize("offset", [0.0, 0.4, -0.9])
def test_a_clock_that_is_right_within_a_second_is_not_corrected(offset: float) -> None:
    machine = Machine(offset)
    for _ in range(20):
        machine.passed += 0.31
        machine.call()
    assert machine.error() == pytest.approx(offset, abs=0.002)


def test_the_first_use_measures() -> None:
    assert abs(Machine(60.0).error()) < 1


def test_measuring_ends_even_if_answers_have_no_date() -> None:
    machine = Machine(60.0)
    calls = []
    for _ in range(3):
        machine.clock.now_ms(lambda: calls.append(1))
    assert len(calls) == 1
    machine.clock.observe("yesterday", 0.0, 0.1)
    assert machine.error() == pytest.approx(60, abs=0.002)


@pytest.mark.parametrize("jump", [-7_200.0, -3.0, 3.0, 7_200.0])
def test_a_wall_clock_that_is_set_is_measured_again(jump: float) -> None:
    machine = Machine()
    machine.call()
    machine.passed += 10
    machine.offset += jump
    assert abs(machine.error()) < 1


def test_a_machine_that_slept_is_measured_again() -> None:
    machine = Machine(offset=20.0)
    machine.call()
    machine.sleep(3_600)
    calls: list[int] = []

    def measure() -> None:
        calls.append(1)
        machine.call()

    now = machine.clock.now_ms(measure) / 1000
    assert calls == [1]
    assert abs(now - machine.aws) < 1


def test_an_answer_that_arrives_after_a_sleep_does_not_count() -> None:
    machine = Machine()
    date, sent = formatdate(int(machine.aws), usegmt=True), machine.passed
    machine.sleep(600)
    machine.clock.observe(date, sent, machine.passed - machine.slept)
    assert abs(machine.error()) < 1


def test_a_call_that_waits_for_messages_does_not_count() -> None:
    machine = Machine(30.0)
    machine.call()
    machine.call(before=20, after=0)
    assert abs(machine.error()) < 1


def test_a_clock_that_is_adjusted_slowly_is_followed() -> None:
    machine = Machine(30.0)
    for _ in range(200):
        machine.passed += 1
        machine.offset -= 0.1  # faster than the bounds allow for
        machine.call()
    assert abs(machine.error()) < 1.6


def test_offsets_and_jumps_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "shardmill.worker")
    machine = Machine(180.0)
    for _ in range(5):
        machine.call()
    machine.passed += 5
    machine.offset = 0.0
    machine.error()
    logged = [(record.action, record.seconds) for record in caplog.records]  # type: ignore[attr-defined]
    assert [action for action, _ in logged] == ["clock-offset", "clock-jumped"]
    assert logged[0][1] == pytest.approx(-180, abs=1)
    assert logged[1][1] == pytest.approx(-180, abs=0.1)
