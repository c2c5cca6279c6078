"""Invocations wait for a free process of their function before another one is started."""

import inspect
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from ministack.core import lambda_runtime

from shardmill.local import function_processes
from shardmill.local.function_processes import share_processes
from support.waits import run_until

CONFIG = {"FunctionArn": "arn:aws:lambda:us-east-1:000000000000:function:f", "Version": "$LATEST"}


class Service:
    """The part of MiniStack's Lambda service that uses its pools; `invoke` blocks until `finish`."""

    acquire_worker: Any
    release_worker: Any

    def __init__(self) -> None:
        self.finish = threading.Semaphore(0)
        self.running: set[Any] = set()
        self.done = 0
        self._lock = threading.Lock()

    def invoke(self, name: str = "f") -> threading.Thread:
        thread = threading.Thread(target=self._invoke, args=(name,), daemon=True)
        thread.start()
        return thread

    def _invoke(self, name: str) -> None:
        process, _ = self.acquire_worker(name, CONFIG, b"", qualifier="$LATEST")
        with self._lock:
            assert process not in self.running, "a process runs one invocation at a time"
            self.running.add(process)
        process._start_time = process._start_time or time.time()
        self.finish.acquire()
        with self._lock:
            self.running.remove(process)
            self.done += 1
        self.release_worker(process)


@pytest.fixture
def runtime() -> Any:
    """MiniStack's own pools, empty."""
    pools = SimpleNamespace(
        _lock=lambda_runtime._lock,
        _workers=lambda_runtime._workers,
        _worker_key=lambda_runtime._worker_key,
        acquire_worker=lambda_runtime.acquire_worker,
        release_worker=lambda_runtime.release_worker,
    )
    lambda_runtime._workers.clear()
    yield pools
    lambda_runtime._workers.clear()


@pytest.fixture
def service(runtime: Any, monkeypatch: pytest.MonkeyPatch) -> Service:
    monkeypatch.setattr(function_processes, "FEW", 2)
    made = Service()
    share_processes(made, runtime)
    return made


def processes(runtime: Any) -> int:
    return sum(len(pool) for pool in runtime._workers.values())


def test_many_short_invocations_share_a_few_processes(service: Service, runtime: Any) -> None:
    threads = [service.invoke() for _ in range(50)]
    while service.done < 50:
        run_until(lambda: service.running or service.done == 50)
        service.finish.release()
    for thread in threads:
        thread.join(10)
    assert processes(runtime) <= 2


def test_long_invocations_do_not_block_the_others(service: Service, runtime: Any) -> None:
    """Five workers wait for work over HTTP; each keeps a process."""
    threads = [service.invoke() for _ in range(6)]
    run_until(lambda: len(service.running) == 6, timeout=50)
    assert processes(runtime) == 6
    service.finish.release(6)
    for thread in threads:
        thread.join(10)


def test_one_process_is_started_at_a_time(
    service: Service, runtime: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(function_processes, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(function_processes, "STUCK_SECONDS", 0.0)
    first, _ = service.acquire_worker("f", CONFIG, b"")
    threads = [service.invoke() for _ in range(10)]
    run_until(lambda: sum(thread.is_alive() for thread in threads) == 10)
    time.sleep(0.3)
    assert processes(runtime) == 1, "the first has not started"
    first._start_time = time.time()
    run_until(lambda: len(service.running) == 10)
    service.finish.release(10)
    for thread in threads:
        thread.join(10)


def test_each_function_has_its_own_processes(service: Service, runtime: Any) -> None:
    threads = [service.invoke("f"), service.invoke("g")]
    run_until(lambda: len(service.running) == 2)
    assert [len(pool) for pool in runtime._workers.values()] == [1, 1]
    service.finish.release(2)
    for thread in threads:
        thread.join(10)


def test_waiting_ends_when_the_processes_are_removed(service: Service, runtime: Any) -> None:
    """A deployment removes the processes of the old code."""
    first = service.invoke()
    run_until(lambda: len(service.running) == 1)
    second = service.invoke()
    with runtime._lock:
        runtime._workers.clear()
    run_until(lambda: len(service.running) == 2)
    service.finish.release(2)
    first.join(10)
    second.join(10)


def process_with_log(*lines: str, running: bool = True) -> tuple[Any, list[dict[str, Any]]]:
    """A process of MiniStack with these lines in its log, and the calls of MiniStack's own method."""
    calls: list[dict[str, Any]] = []

    class Worker(lambda_runtime.Worker):  # type: ignore[misc]
        def _drain_stderr_bounded(self, **options: Any) -> str:
            calls.append(options)
            return "all"

    function_processes.answer_without_delay(SimpleNamespace(Worker=Worker))
    process = Worker("f", CONFIG, b"")
    process._proc = object() if running else None
    for line in lines:
        process._stderr_queue.put(line)
    return process, calls


def test_an_answer_does_not_wait_for_more_lines_of_the_log() -> None:
    process, calls = process_with_log("first", "second")
    assert process._drain_stderr_bounded() == "first\nsecond"
    assert process._drain_stderr_bounded() == ""
    assert not calls


def test_a_late_line_is_logged_with_the_next_invocation() -> None:
    process, _ = process_with_log("first")
    assert process._drain_stderr_bounded() == "first"
    process._stderr_queue.put("late")
    process._stderr_queue.put("next")
    assert process._drain_stderr_bounded() == "late\nnext"


def test_the_log_of_a_process_that_ended_is_read_completely() -> None:
    process, calls = process_with_log(running=False)
    assert process._drain_stderr_bounded(first_line_wait=0.1) == "all"
    assert calls == [{"first_line_wait": 0.1}]


def test_ministack_waits_for_more_lines_of_the_log() -> None:
    """Without this, `answer_without_delay` is not needed."""
    source = inspect.getsource(lambda_runtime.Worker._drain_stderr_bounded)
    assert "idle_confirm: float = 0.005" in source
    assert "self._drain_stderr_bounded()" in inspect.getsource(lambda_runtime.Worker.invoke)
