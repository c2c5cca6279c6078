"""One program in a session of its own, which ends as a whole."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from shardmill.worker.task.limits import Bounds
from shardmill.worker.task.outcome import DISCARDED, TIMED_OUT, Ended
from shardmill.worker.task.users import Identity

log = logging.getLogger("shardmill.worker")

_running: dict[int, Sequence[str]] = {}
"""Each session by its leader, with the command that ends what it runs elsewhere."""

_PROC = Path("/proc")
_BOOT = _PROC / "sys/kernel/random/boot_id"
_STARTED = 19  # of what `_stat` gives: in ticks since the boot
_LOOK_SECONDS = 0.01
_DEATH_SECONDS = 1.0
_UNDO_SECONDS = 20.0


class NotStarted(Exception):
    """The program could not be started."""


def run(
    words: Sequence[str],
    bounds: Bounds,
    *,
    folder: Path,
    environ: Mapping[str, str],
    stdout: Path,
    stderr: Path,
    kill_seconds: float,
    user: Identity | None = None,
    undo: Sequence[str] = (),
    record: Path | None = None,
) -> Ended:
    """Run a program within its bounds; none of its session outlives it.

    `undo` is a command that ends what the program started outside of its session, if it was cut short.
    `record` is a file from which `end_left` can end it, should this process be killed.
    """
    with stdout.open("wb") as out, stderr.open("wb") as err:
        try:
            process = subprocess.Popen(
                words,
                cwd=folder,
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
                **_rights(user),
            )
        except (OSError, ValueError) as error:
            raise NotStarted(_why(words[0], error)) from error
    _running[process.pid] = undo
    try:
        if record:
            record.write_text(json.dumps([process.pid, _birth(process.pid), *undo]))
        why = bounds.await_end(lambda: process.poll() is not None)
        if why is not None:
            _terminate(process, kill_seconds)
    finally:
        _kill(process.pid)
        del _running[process.pid]
    code = process.wait()
    if undo and (why or code < 0):
        _undo(undo)
    return Ended(code, timed_out=why == TIMED_OUT, stopped=why == DISCARDED)


def kill_all() -> None:
    """End every session that runs in this process, without a word."""
    for session, undo in list(_running.items()):
        _kill(session)
        _undo_unseen(undo)


def end_left(record: Path) -> None:
    """End what a process that was killed left running, if it is still the same."""
    try:
        session, birth, *undo = json.loads(record.read_text())
        if birth and birth == _birth(session):
            log.info("ending-left session=%d", session)
            _kill(session)
        _undo_unseen(undo)
    except (OSError, ValueError, TypeError) as error:
        log.warning("not-ended record=%s error=%s", record, error)


def _birth(pid: int) -> str | None:
    """What tells a process from a later one of the same number; None if it is gone, or nobody can say."""
    try:
        return f"{_stat(pid)[_STARTED]} {_BOOT.read_text().strip()}"
    except OSError:
        return None


def _undo_unseen(undo: Sequence[str]) -> None:
    if undo:
        nowhere = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
        with suppress(OSError):  # nobody is left to be told
            os.posix_spawn(undo[0], list(undo), os.environ, file_actions=nowhere)


def _rights(user: Identity | None) -> dict[str, Any]:
    return {"user": user.uid, "group": user.gid, "extra_groups": user.groups} if user else {}


def _why(program: str, error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return f"program {program!r} was not found"
    if isinstance(error, PermissionError):
        return f"program {program!r} may not be executed"
    if isinstance(error, OSError):
        return f"program {program!r} could not be started: {error.strerror}"
    return f"program {program!r} could not be started: {error} in its arguments or environment"


def _terminate(process: subprocess.Popen[bytes], kill_seconds: float) -> None:
    """Ask the whole session to end, and wait for all of it; the caller kills what is left."""
    _signal(process.pid, signal.SIGTERM)
    deadline = time.monotonic() + kill_seconds
    while time.monotonic() < deadline:
        if process.poll() is not None and not _anyone(process.pid):
            return
        time.sleep(_LOOK_SECONDS)


def _kill(session: int) -> None:
    """A member may fork while it is looked for: until there is none, or one that the kernel holds on to."""
    deadline = time.monotonic() + _DEATH_SECONDS
    while _signal(session, signal.SIGKILL) and _anyone(session) and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS / 10)


def _signal(session: int, number: int) -> bool:
    """To the leader's group, and to the others: a shell with job control, or `timeout`, makes more groups.

    Whether there was anyone to hear it.
    """
    heard = False
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(session, number)
        heard = True
    for pid in _members(session):
        with suppress(ProcessLookupError, PermissionError):
            if os.getpgid(pid) != session:
                os.kill(pid, number)
                heard = True
    return heard


def _anyone(session: int) -> bool:
    """Whether one of a session lives: in a container, the dead may wait long for their burial."""
    if not _PROC.exists():
        return _signal(session, 0)
    return any(map(_lives, _members(session)))


def _members(session: int) -> Iterator[int]:
    """The processes of a session; where there is no /proc to look at, its leader's group must do."""
    try:
        pids = [int(name) for name in os.listdir(_PROC) if name.isdecimal()]
    except FileNotFoundError:
        return
    for pid in pids:
        try:
            if os.getsid(pid) == session:
                yield pid
        except (ProcessLookupError, PermissionError):  # it has ended, or is none of ours
            continue


def _lives(pid: int) -> bool:
    try:
        return _stat(pid)[0] not in "ZX"
    except OSError:
        return False


def _stat(pid: int) -> list[str]:
    """What /proc says of a process, from its state on."""
    return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()


def _undo(words: Sequence[str]) -> None:
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_UNDO_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        log.warning("not-undone command=%s error=%s", " ".join(words), error)
        return
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        log.warning("not-undone command=%s error=%s", " ".join(words), said)
