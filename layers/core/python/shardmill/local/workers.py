"""The pull workers that `dev` runs: child processes, replaced when they die."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from shardmill.local.child_process import leashed
from shardmill.local.environment import clean_environment
from shardmill.local.session import Session
from shardmill.local.state_folder import StateFolder

SLOTS = 4
STOP_SECONDS = 1.5
RESTART_SECONDS = 2.0


def worker_command(number: int) -> list[str]:
    """A worker of the group `default` that goes straight to AWS; its name is kept over restarts."""
    options = (
        "--group",
        "default",
        "--slots",
        str(SLOTS),
        "--name",
        f"dev-{number}",
        "--grace",
        "0.5",
        "--aws",
    )
    return leashed("shardmill", "worker", *options)


@dataclass(slots=True)
class Workers:
    session: Session
    folder: StateFolder
    say: Callable[[str], None]
    _running: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    _due: dict[int, float] = field(default_factory=dict)

    def start(self, count: int) -> None:
        for number in range(1, count + 1):
            self._start_one(number)

    def _start_one(self, number: int) -> None:
        with self.folder.log(f"worker-{number}").open("ab") as log:
            self._running[number] = subprocess.Popen(
                worker_command(number),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=clean_environment() | self.session.environ(),
                start_new_session=True,
            )

    def tend(self) -> None:
        """Replace the workers that died, but not faster than every few seconds, nor those told to leave."""
        now = time.monotonic()
        for number, process in list(self._running.items()):
            if (code := process.poll()) is not None:
                del self._running[number]
                _let_go(process)
                if code == 0:
                    self.say(f"worker {number} left, as it was told; `shardmill worker` starts another")
                    continue
                self._due[number] = now + RESTART_SECONDS
                self.say(
                    f"worker {number} ended by itself (exit code {code}) and is started again; "
                    f"its log is {self.folder.log(f'worker-{number}')}"
                )
        for number in [number for number, when in self._due.items() if when <= now]:
            del self._due[number]
            self._start_one(number)

    def stop(self) -> None:
        """Ask all of them, then end what is left of them and of what they ran."""
        processes = list(self._running.values())
        for process in processes:
            process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            _let_go(process)
        self._running.clear()


def _let_go(process: subprocess.Popen[bytes]) -> None:
    if process.stdin:
        process.stdin.close()
