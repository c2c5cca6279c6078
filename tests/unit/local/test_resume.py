"""Executions that a stop interrupted are resumed a few at a time."""

import threading
from typing import Any

import pytest

from shardmill.local import emulator_quirks
from shardmill.local.emulator_quirks import RESTARTED, RESUMED_TOGETHER, InterruptedExecutions
from support.waits import run_until


def arn_of(number: int) -> str:
    return f"arn:aws:states:us-east-1:000000000000:execution:m:{number}"


class Executions(dict[str, dict[str, Any]]):
    def all_values(self) -> list[dict[str, Any]]:
        return list(self.values())


class StepFunctions:
    """The part of MiniStack's service that restores and runs executions."""

    def __init__(self) -> None:
        self._executions = Executions()
        self.opening: set[str] = set()
        self.waiting: set[str] = set()
        self.ended: set[str] = set()
        self.most = 0
        self.go_on = threading.Semaphore(0)
        self.tokens = threading.Event()
        self.waits = True

    def _restore_state(self, data: dict[str, str]) -> None:
        for arn, status in data.items():
            failed = {"error": RESTARTED, "cause": "restart", "stopDate": "now"}
            stopped = {"executionArn": arn, "status": "FAILED"} | failed
            self._executions[arn] = (
                {"executionArn": arn, "status": status} if status != "RUNNING" else stopped
            )

    def _invoke_with_callback(self, arn: str) -> None:
        self.opening.discard(arn)
        self.waiting.add(arn)
        assert self.tokens.wait(20)

    def _execute_wait(self, *_: Any) -> None:
        raise NotImplementedError

    def _run_execution(self, arn: str) -> None:
        self.opening.add(arn)
        self.most = max(self.most, len(self.opening))
        assert self.go_on.acquire(timeout=50)
        if self.waits:
            self._invoke_with_callback(arn)
        self.opening.discard(arn)
        self.ended.add(arn)


@pytest.fixture
def service() -> StepFunctions:
    return StepFunctions()


@pytest.mark.parametrize("waits", [True, False])
def test_a_few_run_together_and_those_that_wait_for_a_token_do_not_count(
    service: StepFunctions, waits: bool
) -> None:
    service.waits = waits
    interrupted = InterruptedExecutions(service)
    everything = {arn_of(number) for number in range(20)}
    service._restore_state(dict.fromkeys(everything, "RUNNING"))
    interrupted.find()
    thread = threading.Thread(target=interrupted.resume, daemon=True)
    thread.start()
    for _ in everything:
        run_until(lambda: bool(service.opening))
        service.go_on.release()
    thread.join(20)
    run_until(lambda: (service.waiting if waits else service.ended) == everything)
    assert service.most <= RESUMED_TOGETHER
    service.tokens.set()
    run_until(lambda: service.ended == everything)


def test_only_interrupted_executions_are_resumed(service: StepFunctions) -> None:
    interrupted = InterruptedExecutions(service)
    service._restore_state({arn_of(1): "SUCCEEDED", arn_of(2): "RUNNING"})
    interrupted.find()
    assert service._executions[arn_of(2)] == {
        "executionArn": arn_of(2),
        "status": "RUNNING",
        "stopDate": None,
    }
    service.go_on.release(2)
    service.tokens.set()
    interrupted.resume()
    run_until(lambda: service.ended == {arn_of(2)})


def test_an_execution_that_is_only_in_the_journal_is_resumed(service: StepFunctions) -> None:
    interrupted = InterruptedExecutions(service)
    service._executions[arn_of(3)] = {"executionArn": arn_of(3), "status": "RUNNING"}
    interrupted.find()
    service.go_on.release()
    service.tokens.set()
    interrupted.resume()
    run_until(lambda: service.ended == {arn_of(3)})


def test_a_failing_execution_makes_room_for_the_next(
    service: StepFunctions, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def fails(arn: str) -> None:
        ran.append(arn)
        raise RuntimeError(arn)

    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    monkeypatch.setattr(service, "_run_execution", fails)
    interrupted = InterruptedExecutions(service)
    service._restore_state({arn_of(number): "RUNNING" for number in range(5)})
    interrupted.find()
    interrupted.resume()
    run_until(lambda: len(ran) == 5)
    assert emulator_quirks._release_slot.get() is None
