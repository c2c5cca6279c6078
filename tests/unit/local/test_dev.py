"""The signals that stop `dev`, and a start that fails."""

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from shardmill.local.dev import STOPPING, StopRequested, laptop, stop_on_signals
from shardmill.local.errors import Refused


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
