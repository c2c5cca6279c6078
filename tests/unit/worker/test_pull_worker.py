"""The pull worker with an in-memory transport."""

import logging
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.model.job import TaskProgress
from shardmill.model.worker import HeartbeatAnswer, HeldTask, Lease, Registration, Reported, Result, Worker
from shardmill.transfer.backoff import Backoff
from shardmill.worker import heartbeat as heartbeat_module
from shardmill.worker import pull_worker, server_calls
from shardmill.worker.run import run_worker
from shardmill.worker.task.channel import LiveStatus
from shardmill.worker.task.execute import Runtime, execute
from shardmill.worker.transport.base import Refused, Stale, Unreachable
from support.fakes.leases import a_lease
from support.fakes.transport import FakeTransport
from support.processes import child_process, gone
from support.worker_log import actions, logged


@pytest.fixture(autouse=True)
def _short_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_calls, "BACKOFF", Backoff(None, 0.01, 0.02))
    monkeypatch.setattr(pull_worker, "_ONCE_WAIT_SECONDS", 0.1)


def work(transport: FakeTransport, slots: int = 2, **more: Any) -> int:
    more = {"grace_seconds": 5.0, "kill_seconds": 0.3, **more}
    return run_worker(["default"], slots, transport, name="w", **more)


class RunningWorker:
    """A worker that runs in a thread."""

    def __init__(self, transport: FakeTransport, **more: Any) -> None:
        self.stop = threading.Event()
        self.code: int | None = None
        self._thread = threading.Thread(target=self._run, args=(transport, more))
        self._thread.start()

    def _run(self, transport: FakeTransport, more: dict[str, Any]) -> None:
        self.code = work(transport, stop=self.stop, **more)

    def __enter__(self) -> "RunningWorker":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> int | None:
        self.stop.set()
        return self.ended()

    def ended(self) -> int | None:
        self._thread.join(15)
        assert not self._thread.is_alive()
        return self.code


def noops(count: int) -> list[Lease]:
    return [a_lease("noop", rank=rank) for rank in range(count)]


def shells(count: int, content: str = ":") -> list[Lease]:
    return [a_lease(content=content, rank=rank) for rank in range(count)]


# Invariants


@settings(max_examples=25)
@given(
    slots=st.integers(1, 6),
    tasks=st.lists(st.tuples(st.booleans(), st.integers(0, 8)), max_size=40),
    stop_after=st.none() | st.integers(0, 30),
    failing=st.lists(st.sampled_from(["lease", "report", "heartbeat"]), max_size=4),
)
def test_every_leased_task_is_reported_once_or_handed_back_and_no_more_run_than_there_are_slots(
    slots: int, tasks: list[tuple[bool, int]], stop_after: int | None, failing: list[str]
) -> None:
    transport = FakeTransport(
        [a_lease("noop" if noop else "shell", str(ms), rank=rank) for rank, (noop, ms) in enumerate(tasks)]
    )
    for call in failing:
        transport.fail(call, Unreachable("connection refused"))
    running, most, lock = 0, 0, threading.Lock()

    def pretend(lease: Lease, runtime: Runtime, stop: threading.Event, live: LiveStatus) -> Result:
        nonlocal running, most
        if lease.type != "noop":
            with lock:
                running += 1
                most = max(most, running)
            stop.wait(int(str(lease.content)) / 1000)
            with lock:
                running -= 1
        return execute(a_lease("noop", rank=lease.sharding.index), runtime, stop)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pull_worker, "execute", pretend)
        patch.setattr(server_calls, "BACKOFF", Backoff(None, 0.001, 0.02))
        with RunningWorker(transport, slots=slots, once=stop_after is None, grace_seconds=0.002) as worker:
            if stop_after is None:
                assert worker.ended() == 0
            else:
                time.sleep(stop_after / 1000)
    reported = Counter(result.task_id for result in transport.results)
    back = Counter(lease.task_id for lease in transport.handed_back)
    assert reported + back == Counter(lease.task_id for lease in transport.leased)
    assert most <= slots
    assert all(1 <= len(batch) <= 10 for batch in transport.reports)
    if stop_after is None:
        assert len(transport.results) == len(tasks)


# Leasing


def test_registration_describes_the_worker() -> None:
    transport = FakeTransport()
    assert work(transport, slots=3, once=True, apps=("a", "b")) == 0
    registration = transport.registration
    assert registration is not None
    assert (registration.name, registration.groups, registration.slots) == ("w", ["default"], 3)
    assert registration.apps == ["a", "b"]
    assert transport.beats[-1] == ([], True)


def test_once_ends_when_nothing_is_left() -> None:
    transport = FakeTransport(noops(25))
    assert work(transport, once=True) == 0
    assert len(transport.results) == 25


def test_max_tasks_limits_the_leased_tasks() -> None:
    transport = FakeTransport(noops(25))
    assert work(transport, max_tasks=13) == 0
    assert len(transport.results) == len(transport.leased) == 13


def test_quick_tasks_are_leased_and_reported_ten_at_a_time() -> None:
    transport = FakeTransport(noops(104))
    assert work(transport, slots=4, once=True) == 0
    assert transport.lease_sizes[:11] == [4] + [10] * 10
    assert max(map(len, transport.reports)) == 10
    assert len(transport.reports) <= 15


def test_slow_tasks_are_not_leased_before_there_is_a_slot() -> None:
    transport = FakeTransport(shells(6, "sleep 0.3"))
    assert work(transport, slots=2, once=True) == 0
    assert max(transport.lease_sizes) <= 2


def test_tasks_that_wait_too_long_for_a_slot_are_handed_back() -> None:
    transport = FakeTransport(noops(5))
    with RunningWorker(transport, grace_seconds=0.0):
        transport.await_that(lambda: len(transport.results) == 5)
        transport.add(*shells(8, "sleep 20"))
        transport.await_that(lambda: transport.handed_back)
        assert len(transport.handed_back) == len(transport.leased) - 5 - 2
    assert len(transport.results) == 5


def test_a_full_worker_does_not_lease() -> None:
    transport = FakeTransport(shells(3, "sleep 0.5"))
    with RunningWorker(transport, slots=2):
        transport.await_that(lambda: len(transport.leased) == 2)
        time.sleep(0.2)
        assert len(transport.lease_sizes) == 1


def test_progress_callback_gets_the_start_and_end_of_each_task() -> None:
    events: list[tuple[str, str | None]] = []
    transport = FakeTransport(shells(1, "exit 3"))
    work(
        transport,
        once=True,
        progress=lambda kind, lease, result: events.append((kind, result and result.reason)),
    )
    assert events == [("started", None), ("ended", "exit code 3")]


def test_a_defect_of_the_worker_is_a_failed_task(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> Result:
        raise RuntimeError("oh no")

    monkeypatch.setattr("shardmill.worker.task.execute._attempt", broken)
    transport = FakeTransport(shells(1))
    assert work(transport, once=True) == 0
    assert [(r.outcome, r.reason) for r in transport.results] == [
        ("failed", "the worker failed to run the task: oh no")
    ]


# Calls to Shardmill


def test_failed_calls_are_retried_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "shardmill.worker")
    transport = FakeTransport(noops(3))
    for call in ("register", "lease", "report"):
        transport.fail(call, *[Unreachable("connection refused")] * 5)
    assert work(transport, once=True) == 0
    assert len(transport.results) == 3
    for call in ("register", "lease", "report"):
        assert [
            (line["action"], line.get("error")) for line in logged(caplog) if line.get("call") == call
        ] == [("call-failing", "connection refused"), ("call-recovered", None)]


def test_a_refused_report_is_retried() -> None:
    transport = FakeTransport(noops(1))
    transport.fail("report", *[Refused("not today")] * 3)
    assert work(transport, once=True) == 0
    assert len(transport.results) == 1


def test_a_permanently_refused_result_is_reported_as_failed_and_the_others_count() -> None:
    class Strict(FakeTransport):
        def report(self, results: Sequence[Result]) -> list[Reported]:
            if any(result.stdout for result in results):
                raise Refused("too much", "body-too-large")
            return super().report(results)

    transport = Strict([*noops(3), a_lease(content="echo said", rank=8)])
    assert work(transport, once=True) == 0
    outcomes = {result.task_id: result.outcome for result in transport.results}
    assert sorted(outcomes.values()) == ["failed-permanent"] + ["success"] * 3
    assert outcomes[transport.leased[-1].task_id] == "failed-permanent"


def test_a_heartbeat_names_all_held_tasks() -> None:
    transport = FakeTransport(shells(2, "sleep 1.4"))
    with RunningWorker(transport) as worker:
        transport.await_that(lambda: transport.beats)
        held, offline = transport.beats[0]
        assert [(task.task_id, task.attempt, task.run) for task in held] == [
            (lease.task_id, 1, 1) for lease in transport.leased
        ]
        assert not offline
        transport.await_that(lambda: len(transport.results) == 2)
        assert worker.end() == 0
    assert transport.beats[-1] == ([], True)


def test_dropped_tasks_are_stopped_and_reported_as_discarded() -> None:
    transport = FakeTransport(shells(2, "sleep 20"))
    transport.drop = [transport.queue[1].task_id]
    with RunningWorker(transport, grace_seconds=0.0):
        transport.await_that(lambda: transport.results)
        [result] = transport.results
        assert (result.task_id, result.outcome, result.reason) == (
            transport.drop[0],
            "failed",
            "discarded",
        )
    assert [lease.task_id for lease in transport.handed_back] == [transport.leased[0].task_id]


@pytest.mark.parametrize("call", ["heartbeat", "lease", "report"])
def test_a_stale_session_stops_the_worker_and_its_tasks(
    call: str, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    transport = FakeTransport([*shells(1, f"echo $$ > {tmp_path}/pid; sleep 30"), a_lease("noop", rank=9)])
    with RunningWorker(transport) as worker:
        transport.await_that(lambda: len(transport.leased) == 2)
        _await(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
        transport.fail(call, Stale("registered again since"))
        transport.add(a_lease("noop", rank=11))
        assert worker.ended() == 1
    assert "session-ended" in actions(caplog)
    assert "the session of this worker has ended: registered again since" in caplog.messages
    assert transport.leased[0].task_id not in {result.task_id for result in transport.results}
    assert not any(offline for _, offline in transport.beats)
    assert gone(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize(("code", "exit_code"), [("group-not-found", 3), ("unauthorized", 1)])
def test_a_refused_registration_is_logged_with_its_reason(
    code: str, exit_code: int, caplog: pytest.LogCaptureFixture
) -> None:
    transport = FakeTransport()
    transport.fail("register", Refused("there is no worker group 'x'", code))
    assert work(transport) == exit_code
    assert actions(caplog) == ["registration-refused"]
    assert caplog.messages == ["Shardmill refused the registration: there is no worker group 'x'"]


def test_heartbeats_send_task_progress_and_return_the_followed_tasks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(heartbeat_module, "EXTRA_SECONDS", 0.05)
    seen: list[bool] = []
    transport = FakeTransport(shells(2))
    followed = transport.queue[0].task_id

    def pretend(lease: Lease, runtime: Runtime, stop: threading.Event, live: LiveStatus) -> Result:
        if lease.task_id == followed:
            live.progress = TaskProgress(percent=42, message="half")
        transport.await_that(lambda: any(task.progress for held, _ in transport.beats for task in held))
        transport.followed = [followed]
        _await(lambda: live.followed == (lease.task_id == followed) and len(transport.beats) > 2)
        seen.append(live.followed)
        transport.followed = []
        _await(lambda: not live.followed)
        return execute(a_lease("noop", rank=lease.sharding.index), runtime, stop)

    monkeypatch.setattr(pull_worker, "execute", pretend)
    assert work(transport, once=True) == 0
    assert sorted(seen) == [False, True]
    progress = {task.task_id: task.progress for held, _ in transport.beats for task in held}
    assert progress == {followed: TaskProgress(percent=42, message="half"), transport.leased[1].task_id: None}


def test_heartbeats_are_sent_when_the_worker_becomes_busy_or_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat_module, "EXTRA_SECONDS", 0.05)
    transport = FakeTransport(shells(1, "sleep 1"), heartbeat_seconds=600)
    with RunningWorker(transport):
        transport.await_that(lambda: len(transport.beats) == 2)
        assert [len(held) for held, _ in transport.beats] == [1, 0]


def test_a_suspended_worker_sends_frequent_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat_module, "SUSPENDED_SECONDS", 0.05)
    transport = FakeTransport(noops(1), heartbeat_seconds=600)
    with RunningWorker(transport):
        transport.await_that(lambda: len(transport.results) == 1)
        transport.suspended = True
        transport.add(a_lease("noop", rank=1))
        beats = len(transport.beats)
        transport.await_that(lambda: len(transport.beats) >= beats + 3)
        transport.suspended = False
        transport.await_that(lambda: len(transport.results) == 2)


def test_many_short_tasks_cause_few_heartbeats() -> None:
    transport = FakeTransport(noops(3000), heartbeat_seconds=600)
    began = time.monotonic()
    assert work(transport, once=True) == 0
    seconds = time.monotonic() - began
    assert sum(not offline for _, offline in transport.beats) <= 1 + seconds / heartbeat_module.EXTRA_SECONDS


def test_a_suspended_worker_leases_nothing_until_it_is_resumed(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "shardmill.worker")
    transport = FakeTransport(noops(3))
    with RunningWorker(transport):
        transport.await_that(lambda: len(transport.results) == 3)
        transport.suspended = True
        transport.add(a_lease("noop", rank=3))
        beats = len(transport.beats)
        transport.await_that(lambda: len(transport.beats) >= beats + 2)
        assert len(transport.results) == 3
        transport.suspended = False
        transport.await_that(lambda: len(transport.results) == 4)
    relevant = [line for line in logged(caplog) if line["action"] in ("suspended", "resumed", "call-failing")]
    assert [line["action"] for line in relevant] == ["suspended", "resumed"]
    assert "suspended: takes no tasks until `shardmill workers resume w`" in caplog.messages


def test_a_worker_that_is_suspended_at_registration_does_not_lease() -> None:
    transport = FakeTransport(noops(1))
    transport.suspended = True
    with RunningWorker(transport):
        transport.await_that(lambda: transport.beats)
        assert transport.lease_sizes == []
        transport.suspended = False
        transport.await_that(lambda: transport.results)


def test_tasks_leased_after_a_suspension_are_handed_back() -> None:
    transport = FakeTransport()
    transport.refuses = False
    with RunningWorker(transport):
        transport.await_that(lambda: transport.lease_sizes)
        transport.suspended = True
        beats = len(transport.beats)
        transport.await_that(lambda: len(transport.beats) >= beats + 2)
        transport.add(a_lease("noop"))
        transport.await_that(lambda: transport.handed_back)
        transport.suspended = False
        transport.add(a_lease("noop", rank=8))
        transport.await_that(lambda: transport.results)
    assert [result.task_id for result in transport.results] == [transport.leased[1].task_id]


def test_a_drained_worker_finishes_its_tasks_and_exits(tmp_path: Path) -> None:
    begun, go = tmp_path / "begun", tmp_path / "go"
    transport = FakeTransport(shells(1, f"touch {begun}; until [ -e {go} ]; do sleep 0.02; done"))
    with RunningWorker(transport, grace_seconds=0.0) as worker:
        _await(begun.exists)
        transport.drain = True
        beats = len(transport.beats)
        transport.await_that(lambda: len(transport.beats) >= beats + 2)
        transport.add(a_lease("noop", rank=8))
        go.touch()
        assert worker.ended() == 0
    assert [result.outcome for result in transport.results] == ["success"]
    taken = {lease.task_id for lease in transport.leased[1:]}
    assert taken == {lease.task_id for lease in transport.handed_back}
    assert transport.beats[-1] == ([], True)


def test_a_drain_can_be_cancelled(tmp_path: Path) -> None:
    begun, go = tmp_path / "begun", tmp_path / "go"
    transport = FakeTransport(shells(1, f"touch {begun}; until [ -e {go} ]; do sleep 0.02; done"))
    with RunningWorker(transport):
        _await(begun.exists)
        for drained in (True, False):
            transport.drain = drained
            beats = len(transport.beats)
            transport.await_that(lambda beats=beats: len(transport.beats) >= beats + 2)  # type: ignore[misc]
        go.touch()
        transport.await_that(lambda: transport.results)
        transport.add(a_lease("noop", rank=8))
        transport.await_that(lambda: len(transport.results) == 2)


def test_once_does_not_wait_for_the_end_of_a_suspension() -> None:
    transport = FakeTransport(noops(1))
    transport.suspended = True
    assert work(transport, once=True) == 0
    assert transport.results == []


# Stopping


def test_a_stopping_worker_finishes_running_tasks_and_hands_back_the_rest() -> None:
    transport = FakeTransport(noops(5))
    with RunningWorker(transport, slots=1) as worker:
        transport.await_that(lambda: len(transport.results) == 5)
        transport.add(*shells(4, "sleep 0.3"))
        transport.await_that(lambda: len(transport.leased) == 9)
        _await(lambda: len(transport.lease_sizes) >= 2)
        assert worker.end() == 0
    assert [result.outcome for result in transport.results] == ["success"] * 6
    assert len(transport.handed_back) == 3
    assert transport.beats[-1] == ([], True)


def test_tasks_that_exceed_the_grace_period_are_killed_and_handed_back() -> None:
    transport = FakeTransport(shells(2, "sleep 30"))
    with RunningWorker(transport, grace_seconds=0.2) as worker:
        transport.await_that(lambda: len(transport.leased) == 2)
        assert worker.end() == 0
    assert transport.results == []
    assert len(transport.handed_back) == 2


def test_a_task_that_exits_on_sigterm_during_shutdown_is_handed_back() -> None:
    content = "trap 'exit 0' TERM; while :; do sleep 0.02; done"
    transport = FakeTransport(shells(1, content))
    with RunningWorker(transport, grace_seconds=0.0) as worker:
        transport.await_that(lambda: len(transport.leased) == 1)
        time.sleep(0.3)
        assert worker.end() == 0
    assert transport.results == []
    assert len(transport.handed_back) == 1


def test_unreported_results_at_shutdown_are_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull_worker, "_LAST_REPORTS_SECONDS", 0.3)
    transport = FakeTransport(noops(2))
    transport.fail("report", *[Unreachable("connection refused")] * 10_000)
    with RunningWorker(transport) as worker:
        transport.await_that(lambda: len(transport.leased) == 2)
        assert worker.end() == 1
    assert {"action": "results-lost", "results": 2} in logged(caplog)


class BlockingTransport(FakeTransport):
    """Blocks certain calls until `go` is set."""

    def __init__(self, leases: Sequence[Lease] = (), blocking: Collection[str] = ()) -> None:
        super().__init__(leases)
        self.blocking = blocking
        self.blocked: list[str] = []
        self.go = threading.Event()

    def _block(self, call: str) -> None:
        if call in self.blocking:
            with self.changed:
                self.blocked.append(call)
                self.changed.notify_all()
            self.go.wait(60)

    def register(self, registration: Registration) -> Worker:
        self._block("register")
        return super().register(registration)

    def heartbeat(self, held: Sequence[HeldTask], *, offline: bool = False) -> HeartbeatAnswer:
        self._block("last heartbeat" if offline and not held else "heartbeat")
        return super().heartbeat(held, offline=offline)

    def hand_back(self, leases: Sequence[Lease], reason: str) -> None:
        self._block("hand_back")
        super().hand_back(leases, reason)

    def lease(self, most: int, wait_seconds: int) -> list[Lease]:
        leases = super().lease(most, wait_seconds)
        self._block("lease")
        return leases


def test_tasks_of_a_pending_lease_call_are_handed_back_before_deregistration() -> None:
    transport = BlockingTransport(noops(3), blocking=["lease"])
    with RunningWorker(transport, slots=3) as worker:
        transport.await_that(lambda: transport.blocked)
        worker.stop.set()
        transport.await_that(lambda: any(offline for _, offline in transport.beats))
        transport.go.set()
        assert worker.ended() == 0
    assert transport.results == []
    assert transport.handed_back == transport.leased
    assert len(transport.leased) == 3
    assert transport.beats[-1] == ([], True)


def test_a_worker_stopped_while_registering_deregisters(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "shardmill.worker")
    transport = BlockingTransport(blocking=["register"])
    with RunningWorker(transport) as worker:
        transport.await_that(lambda: transport.blocked)
        worker.stop.set()
        _await(lambda: {"action": "stopping", "graceSeconds": 5.0} in logged(caplog))
        transport.go.set()
        assert worker.ended() == 0
    assert transport.beats[-1] == ([], True)


@pytest.mark.parametrize("call", ["heartbeat", "last heartbeat", "hand_back", "lease"])
def test_shutdown_does_not_wait_without_limit_for_a_call(
    call: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "shardmill.worker")
    for name in ("_LAST_REPORTS", "_LAST_HEARTBEAT", "_HAND_BACK", "_LAST_LEASE"):
        monkeypatch.setattr(pull_worker, f"{name}_SECONDS", 0.1)
    transport = BlockingTransport(shells(1, "sleep 30"), blocking=[call])
    with RunningWorker(transport, grace_seconds=0.0) as worker:
        transport.await_that(lambda: transport.leased)
        assert worker.end() == 0
    transport.go.set()
    assert "call-abandoned" in actions(caplog)


@pytest.mark.parametrize("call", ["heartbeat", "last heartbeat", "hand_back", "lease"])
def test_a_second_signal_takes_effect_during_any_pending_call(
    call: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("_LAST_REPORTS", "_LAST_HEARTBEAT", "_HAND_BACK", "_LAST_LEASE"):
        monkeypatch.setattr(pull_worker, f"{name}_SECONDS", 60)
    transport = BlockingTransport(shells(1, "sleep 30"), blocking=[call])
    registration = Registration(name="w", groups=["default"])
    runtime = Runtime(tmp_path / "work", kill_seconds=0.3)
    worker = pull_worker.PullWorker(
        transport, registration, runtime, pull_worker.WorkerOptions(grace_seconds=0.0)
    )
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(worker.run()))
    thread.start()
    transport.await_that(lambda: transport.leased)
    worker.signals = 1
    transport.await_that(lambda: transport.blocked)
    worker.signals = 2
    thread.join(15)
    assert codes == [pull_worker.EXIT_KILLED]
    transport.go.set()


def _await(predicate: Callable[[], object], seconds: float = 5) -> None:
    deadline = time.monotonic() + seconds
    while not predicate():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# Signals


_PROGRAM = """
import sys
sys.path[:0] = {path!r}
from support.fakes.transport import FakeTransport
from support.fakes.leases import a_lease
from shardmill.worker.run import run_worker
transport = FakeTransport([a_lease(content={content!r})])
code = run_worker(["default"], 1, transport, name="w", grace_seconds={grace}, kill_seconds=20)
print(len(transport.results), len(transport.handed_back), len(transport.beats), flush=True)
sys.exit(code)
"""


@contextmanager
def _worker_process(content: str, grace: float, prelude: str = "") -> Iterator["subprocess.Popen[str]"]:
    program = prelude + _program(content, grace)
    with child_process([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        yield process


def _program(content: str, grace: float) -> str:
    return _PROGRAM.format(path=sys.path, content=content, grace=grace)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_stops_the_worker_gracefully(number: int, tmp_path: Path) -> None:
    with _worker_process(f"touch {tmp_path}/begun; sleep 0.4", 10) as process:
        _await(lambda: (tmp_path / "begun").exists(), 20)
        process.send_signal(number)
        assert process.communicate(timeout=50)[0].split()[:2] == ["1", "0"]
        assert process.returncode == 0


def test_a_second_signal_kills_at_once(tmp_path: Path) -> None:
    endless = f"trap '' TERM; echo $$ > {tmp_path}/pid; while :; do sleep 0.05; done"
    with _worker_process(endless, 30) as process:
        _await(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), 20)
        process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=50)
        assert process.returncode == 130
    assert gone(int((tmp_path / "pid").read_text()))


def test_nohup_is_respected(tmp_path: Path) -> None:
    go = tmp_path / "go"
    content = f"touch {tmp_path}/begun; until [ -e {go} ]; do sleep 0.02; done"
    ignored = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)"
    with _worker_process(content, 10, prelude=ignored) as process:
        _await(lambda: (tmp_path / "begun").exists(), 20)
        process.send_signal(signal.SIGHUP)
        time.sleep(0.3)
        assert process.poll() is None
        process.terminate()
        go.touch()
        assert process.communicate(timeout=50)[0].split()[:2] == ["1", "0"]
