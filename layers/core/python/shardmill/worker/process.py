"""One program in a process group of its own, which ends as a whole."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event

_groups: set[int] = set()
_LOOK_SECONDS = (0.002, 0.05)


class NotStarted(Exception):
    """The program could not be started."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended: its exit code (minus the signal that killed it), and whether we ended it."""

    code: int
    timed_out: bool = False
    stopped: bool = False


def run(
    arguments: Sequence[str],
    *,
    folder: Path,
    environ: Mapping[str, str],
    stdout: Path,
    stderr: Path,
    stop: Event,
    timeout: float | None,
    kill_seconds: float,
) -> Ended:
    """Run a program until it ends, `stop` is set, or its time is over; none of its group outlives it."""
    with stdout.open("wb") as out, stderr.open("wb") as err:
        try:
            process = subprocess.Popen(
                arguments,
                cwd=folder,
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise NotStarted(_why(arguments[0], error)) from error
    _groups.add(process.pid)
    deadline = time.monotonic() + timeout if timeout is not None else None
    try:
        why = _await(process, stop, deadline)
        if why is not None:
            _terminate(process, kill_seconds)
    finally:
        _signal(process.pid, signal.SIGKILL)
        _groups.discard(process.pid)
    code = process.wait()
    return Ended(code, timed_out=why == "timed-out", stopped=why == "stopped")


def kill_all() -> None:
    """End every group that runs in this process, without a word."""
    for group in list(_groups):
        _signal(group, signal.SIGKILL)


def _why(program: str, error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return f"program {program!r} was not found"
    if isinstance(error, PermissionError):
        return f"program {program!r} may not be executed"
    if isinstance(error, OSError):
        return f"program {program!r} could not be started: {error.strerror}"
    return f"program {program!r} could not be started: {error} in its arguments or environment"


def _await(process: subprocess.Popen[bytes], stop: Event, deadline: float | None) -> str | None:
    """None when the program ended by itself, else why it must be ended."""
    shortest, longest = _LOOK_SECONDS
    began = time.monotonic()
    while process.poll() is None:
        now = time.monotonic()
        if deadline is not None and now >= deadline:
            return "timed-out"
        pause = min(longest, max(shortest, (now - began) / 20))
        if deadline is not None:
            pause = min(pause, deadline - now)
        if stop.wait(pause) and process.poll() is None:
            return "stopped"
    return None


def _terminate(process: subprocess.Popen[bytes], kill_seconds: float) -> None:
    """Ask the whole group to end, and wait for all of it; the caller kills what is left."""
    _signal(process.pid, signal.SIGTERM)
    deadline = time.monotonic() + kill_seconds
    while time.monotonic() < deadline:
        if process.poll() is not None and not _anyone(process.pid):
            return
        time.sleep(_LOOK_SECONDS[1] / 5)


def _anyone(group: int) -> bool:
    """Whether a group has a living process: in a container, the dead may wait long for their burial."""
    if not _signal(group, 0):
        return False
    stats = list(Path("/proc").glob("[0-9]*/stat"))
    return not stats or any(_lives_in(group, stat) for stat in stats)


def _lives_in(group: int, stat: Path) -> bool:
    try:
        state, _, group_id = stat.read_text().rpartition(")")[2].split()[:3]
    except OSError:
        return False
    return int(group_id) == group and state not in "ZX"


def _signal(group: int, number: int) -> bool:
    """Whether there was anyone in the group to hear it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
        return True
    return False
