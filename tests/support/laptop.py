"""`shardmill dev` as a child process: start it, use it over HTTP, stop it without leftovers."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import httpx

from support.processes import descendants, kill_tree, still_alive

START_SECONDS = 60.0
STOP_SECONDS = 20.0


class LaptopFault(Exception):
    """The laptop cloud did not start, did not stop, or left a process behind."""


@dataclass
class Process:
    """A `shardmill …` command running as a child, its messages kept in a file."""

    command: Sequence[str]
    log: Path
    environ: dict[str, str] = field(default_factory=dict)
    program: Sequence[str] = ("-m", "shardmill")
    popen: subprocess.Popen[str] | None = None

    def start(self) -> Self:
        with self.log.open("a") as messages:
            self.popen = subprocess.Popen(
                [sys.executable, *self.program, *self.command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=messages,
                text=True,
                env=_clean_environment() | self.environ,
            )
        return self

    @property
    def pid(self) -> int:
        assert self.popen is not None, "not started"
        return self.popen.pid

    def kill(self) -> None:
        """SIGKILL: it cannot deregister."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Send SIGTERM; return the exit code. It fails if the process does not end in time."""
        return self._end(signal.SIGTERM)

    def _end(self, sign: signal.Signals) -> int:
        assert self.popen is not None, "not started"
        if self.popen.poll() is None:
            self.popen.send_signal(sign)
        try:
            return self.popen.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            kill_tree(self.popen)
            raise LaptopFault(
                f"{self} did not end within {STOP_SECONDS} s of {sign.name}\n{self.read_log()}"
            ) from None
        finally:
            if self.popen.stdout is not None:
                self.popen.stdout.close()

    def first_line(self, seconds: float) -> str:
        """The first line of its output."""
        assert self.popen is not None, "not started"
        assert self.popen.stdout is not None
        ready, _, _ = select.select([self.popen.stdout], [], [], seconds)
        line = self.popen.stdout.readline() if ready else ""
        if not line:
            why = f"ended with {self.popen.wait(STOP_SECONDS)}" if ready else f"no output in {seconds} s"
            raise LaptopFault(f"{self}: {why}\n{self.read_log()}")
        return line

    def read_log(self) -> str:
        return self.log.read_text()[-4000:] if self.log.exists() else ""

    def __str__(self) -> str:
        return f"shardmill {' '.join(self.command)}"


@dataclass
class Laptop:
    """A running laptop cloud."""

    process: Process
    url: str
    token: str
    aws_endpoint: str
    state: Path
    client: httpx.Client
    workers: list[Process] = field(default_factory=list)

    def request(self, method: str, path: str, body: Any = None, **options: Any) -> httpx.Response:
        """A request with the admin's token; `path` begins with a slash."""
        return self.client.request(method, self.url.rstrip("/") + path, json=body, **options)

    def worker(self, *options: str) -> Process:
        """Start `shardmill worker …`; `end_workers` ends it if the test does not."""
        log = self.state.parent / f"worker-{uuid.uuid4()}.log"
        environ = {"SHARDMILL_URL": self.url, "SHARDMILL_TOKEN": self.token}
        environ["XDG_CACHE_HOME"] = str(self.state.parent / "cache")
        if "--aws" in options:
            environ |= self.aws_environ()
        started = Process(["worker", *options], log, environ).start()
        self.workers.append(started)
        return started

    def end_workers(self) -> None:
        """Kill the workers that were started so far, with their tasks."""
        while self.workers:
            worker = self.workers.pop()
            assert worker.popen is not None
            kill_tree(worker.popen)

    def aws_environ(self) -> dict[str, str]:
        """The environment with its AWS endpoint and the names of the deployed resources."""
        from shardmill.client.dev_session import Session
        from shardmill.local.environment import session_environment

        return session_environment(Session(**json.loads((self.state / "dev.json").read_text())))

    def run(self, *command: str, seconds: float = 60.0) -> subprocess.CompletedProcess[str]:
        """A `shardmill` command that talks to this cloud, run to its end."""
        return subprocess.run(
            [sys.executable, "-m", "shardmill", *command],
            env=_clean_environment() | {"SHARDMILL_URL": self.url, "SHARDMILL_TOKEN": self.token},
            capture_output=True,
            text=True,
            timeout=seconds,
            stdin=subprocess.DEVNULL,
        )


@contextmanager
def start_laptop(
    folder: Path, *, workers: int = 1, port: int | None = None, options: Sequence[str] = ()
) -> Iterator[Laptop]:
    """Run `shardmill dev` with its state in `folder`/state until the end of the block."""
    state = folder / "state"
    command = ["dev", "--json", "--state", str(state), "--workers", str(workers), *options]
    if port is not None:
        command += ["--port", str(port)]
    own = {"XDG_CACHE_HOME": str(folder / "cache")}
    process = Process(command, folder / "dev.log", own).start()
    children: set[int] = set()
    try:
        ready = json.loads(process.first_line(START_SECONDS))
        headers = {"Authorization": f"Bearer {ready['token']}"}
        with httpx.Client(headers=headers, timeout=120.0, trust_env=False) as client:
            laptop = Laptop(process, ready["url"], ready["token"], ready["awsEndpoint"], state, client)
            try:
                yield laptop
            finally:
                laptop.end_workers()
    finally:
        children |= descendants(process.pid)
        process.stop()
    left = still_alive(children, STOP_SECONDS)
    if left:
        raise LaptopFault(f"{process} left processes behind: {left}\n{process.read_log()}")


def _clean_environment() -> dict[str, str]:
    """The environment of a user without an AWS account."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "SHARDMILL_"))}
