"""Run the command line as a process, with pipes or on a terminal."""

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable

from support.fakes.api import TOKEN
from support.processes import child_process

COMMAND = [sys.executable, "-m", "shardmill"]


def environment(url: str = "", **more: str) -> dict[str, str]:
    """The environment of a command, which finds the API at `url` or none at all."""
    connection = {"SHARDMILL_URL": url, "SHARDMILL_TOKEN": TOKEN} if url else {}
    return {**os.environ, "XDG_CACHE_HOME": "/nonexistent", **connection, **more}


def run_process(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        env=env or environment(),
        timeout=20,
        check=False,
    )


def run_on_terminal(
    *arguments: str,
    env: dict[str, str],
    watch: Callable[[bytes], None] = lambda seen: None,
    typed: str = "",
    then: tuple[str, str] | None = None,
) -> tuple[int, str]:
    """Run a command on a pseudoterminal; return its exit code and what it has written.

    `then`: a text to wait for, and what is typed when it appears.
    """
    terminal, other = pty.openpty()
    os.write(terminal, typed.encode())
    with child_process([*COMMAND, *arguments], stdin=other, stdout=other, stderr=other, env=env) as process:
        os.close(other)
        seen = b""
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            readable, _, _ = select.select([terminal], [], [], 0.1)
            if readable:
                try:
                    seen += os.read(terminal, 65_536)
                except OSError:
                    break
                watch(seen)
                if then and then[0].encode() in seen:
                    os.write(terminal, then[1].encode())
                    then = None
            elif process.poll() is not None:
                break
        os.close(terminal)
        return process.wait(5), seen.decode()
