"""What asks `dev` to stop, and what it leaves when it is refused."""

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from shardmill.local.dev import STOPPING, Stopped, laptop, stoppable
from shardmill.local.errors import Refused


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in STOPPING}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_stops_and_more_change_nothing(number: signal.Signals) -> None:
    ended: list[signal.Signals] = []

    def run() -> None:
        with stoppable():
            try:
                os.kill(os.getpid(), number)
            finally:
                for again in STOPPING:
                    os.kill(os.getpid(), again)
                    ended.append(again)

    with pytest.raises(Stopped):
        run()
    assert ended == list(STOPPING)


def test_under_nohup_a_closed_terminal_changes_nothing() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with stoppable():
        os.kill(os.getpid(), signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_a_taken_port_is_refused_before_there_is_a_folder(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(Refused, match=str(port)), laptop(port, tmp_path / "new" / "state", 0):
            pass
    assert list(tmp_path.iterdir()) == []
