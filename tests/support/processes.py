"""Child processes of tests: start them, find their descendants, and end them all."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_KILL_SECONDS = 10.0


@contextmanager
def child_process(command: Sequence[str | Path], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """Start a child and, at the end of the block, kill it with all its descendants if it still runs.

    Unlike `with subprocess.Popen(...)`, leaving the block never waits for a child that does not end.
    """
    process = subprocess.Popen([str(word) for word in command], **options)
    try:
        yield process
    finally:
        kill_tree(process)


def kill_tree(process: subprocess.Popen[Any]) -> None:
    """Kill a child and its descendants, reap the child and close its pipes."""
    for pid in descendants(process.pid) if process.poll() is None else ():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.kill()
    process.wait(_KILL_SECONDS)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


def restore_signals() -> None:
    """Give children default signal handling even if the caller ignores signals, as `nohup make test &` does.

    Ignored signals stay ignored across exec; handlers do not. The handler does nothing, so this
    process still ignores the signal.
    """
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, _do_nothing)


def _do_nothing(*_: object) -> None:
    pass


def alive(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rsplit(")", 1)[1].split()[0] not in "ZX"


def gone(pid: int, within: float = 20.0) -> bool:
    """Whether a process ends within some seconds."""
    deadline = time.monotonic() + within
    while alive(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def descendants(pid: int) -> set[int]:
    """The processes below `pid`, from /proc."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            parent = _parent(entry)
            if parent is not None:
                parents.setdefault(parent, []).append(int(entry.name))
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        for child in parents.get(waiting.pop(), []):
            found.add(child)
            waiting.append(child)
    return found


def still_alive(pids: set[int], seconds: float) -> dict[int, str]:
    """The command lines of those of `pids` that still run after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        alive = {pid: command for pid in pids if (command := _command(pid))}
        if not alive or time.monotonic() >= deadline:
            return alive
        time.sleep(0.05)


def running_commands() -> list[str]:
    """The command lines of all processes of this machine."""
    return [_command(int(entry.name)) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _parent(entry: Path) -> int | None:
    try:
        return int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None


def _command(pid: int) -> str:
    """A process's command line; empty if it is gone or a zombie."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""
