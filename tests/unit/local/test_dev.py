"""The signals that stop `dev`, its port, and a start that fails."""

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from shardmill.local import dev
from shardmill.local.cloud import bind
from shardmill.local.dev import STOPPING, StopRequested, default_listener, laptop, stop_on_signals
from shardmill.local.errors import Refused
from shardmill.local.state_folder import StateFolder


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in STOPPING}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_stops_and_later_ones_are_ignored(number: signal.Signals) -> None:
    ended: list[signal.Signals] = []

    def run() -> None:
        with stop_on_signals():
            try:
                os.kill(os.getpid(), number)
            finally:
                for again in STOPPING:
                    os.kill(os.getpid(), again)
                    ended.append(again)

    with pytest.raises(StopRequested):
        run()
    assert ended == list(STOPPING)


def test_sighup_is_ignored_under_nohup() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with stop_on_signals():
        os.kill(os.getpid(), signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_a_port_in_use_is_rejected_before_the_state_folder_is_created(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(Refused, match=str(port)), laptop(port, tmp_path / "new" / "state", 0):
            pass
    assert list(tmp_path.iterdir()) == []


def port_of(listener: socket.socket) -> int:
    return int(listener.getsockname()[1])


@pytest.fixture
def ports(monkeypatch: pytest.MonkeyPatch) -> range:
    """Three ports that are free."""
    free = next(port for port in range(20_000, 30_000, 3) if all(is_free(n) for n in range(port, port + 3)))
    monkeypatch.setattr(dev, "DEFAULT_PORTS", range(free, free + 3))
    return dev.DEFAULT_PORTS


def is_free(port: int) -> bool:
    try:
        bind(port).close()
    except Refused:
        return False
    return True


def test_the_default_port_is_always_the_same(tmp_path: Path, ports: range) -> None:
    folder = StateFolder.at(tmp_path)
    for _ in range(2):
        with default_listener(folder) as listener:
            assert port_of(listener) == ports[0]


def test_the_next_free_port_is_used_and_kept_for_the_state_folder(tmp_path: Path, ports: range) -> None:
    first, second = StateFolder.at(tmp_path / "a"), StateFolder.at(tmp_path / "b")
    with default_listener(first), default_listener(second) as listener:
        assert port_of(listener) == ports[1]
        second.save_deployment(port=port_of(listener))
    with default_listener(second) as listener:
        assert port_of(listener) == ports[1]


def test_any_free_port_is_used_if_all_default_ports_are_taken(tmp_path: Path, ports: range) -> None:
    folder = StateFolder.at(tmp_path)
    with ExitStack() as taken:
        listeners = [taken.enter_context(default_listener(folder)) for _ in range(4)]
        assert [port_of(listener) for listener in listeners[:3]] == list(ports)
        assert port_of(listeners[3]) not in ports
