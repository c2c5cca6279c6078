"""The pull workers of `dev`: child processes that are restarted when they exit."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from shardmill.client.dev_session import Session
from shardmill.local.child_process import child_command
from shardmill.local.environment import clean_environment, worker_environment
from shardmill.local.state_folder import StateFolder

SLOTS = 4
STOP_SECONDS = 1.5
RESTART_SECONDS = 2.0


def worker_command(number: int) -> list[str]:
    """A worker of the group `default` that uses the AWS APIs directly; it keeps its name across restarts."""
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
    return child_command("shardmill", "worker", *options)


@dataclass(slots=True)
class Workers:
    session: Session
    folder: StateFolder
    report: Callable[[str], None]
    _running: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    _restart_at: dict[int, float] = field(default_factory=dict)

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
                env=clean_environment() | worker_environment(self.session),
                start_new_session=True,
            )

    def supervise(self) -> None:
        """Restart workers that failed, after a delay, but not workers that were drained and exited."""
        now = time.monotonic()
        for number, process in list(self._running.items()):
            if (code := process.poll()) is not None:
                del self._running[number]
                _close_stdin(process)
                if code == 0:
                    self.report(f"worker {number} was drained and exited; `shardmill worker` starts another")
                    continue
                self._restart_at[number] = now + RESTART_SECONDS
                self.report(
                    f"worker {number} exited unexpectedly (exit code {code}) and will be restarted; "
                    f"see its log {self.folder.log(f'worker-{number}')}"
                )
        for number in [number for number, when in self._restart_at.items() if when <= now]:
            del self._restart_at[number]
            self._start_one(number)

    def stop(self) -> None:
        """Terminate all workers, then kill their remaining processes and tasks."""
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
            _close_stdin(process)
        self._running.clear()


def _close_stdin(process: subprocess.Popen[bytes]) -> None:
    if process.stdin:
        process.stdin.close()
