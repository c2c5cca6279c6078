"""Run a program in a session of its own, and end all processes of that session with it."""

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

from shardmill.worker.outcome import DISCARDED, TIMED_OUT, ProcessExit
from shardmill.worker.task.bounds import Bounds
from shardmill.worker.task.users import Identity

log = logging.getLogger("shardmill.worker")

_running: dict[int, Sequence[str]] = {}
"""The cleanup command of each session, by its leader."""

_PROC = Path("/proc")
_BOOT = _PROC / "sys/kernel/random/boot_id"
_START_TIME = 19  # the index in `_stat`; in clock ticks since boot
_POLL_SECONDS = 0.01
_KILL_SECONDS = 1.0
_CLEANUP_SECONDS = 20.0


class NotStarted(Exception):
    """The program could not be started."""


def run(
    argv: Sequence[str],
    bounds: Bounds,
    *,
    folder: Path,
    environ: Mapping[str, str],
    stdout: Path,
    stderr: Path,
    kill_seconds: float,
    user: Identity | None = None,
    cleanup: Sequence[str] = (),
    record: Path | None = None,
) -> ProcessExit:
    """Run a program within its bounds; no process of its session outlives it.

    `cleanup` is a command that ends processes that the program started outside of its session, unless it
    ended by itself. `record` is a file for `end_orphan`, in case this process is killed.
    """
    with stdout.open("wb") as out, stderr.open("wb") as err:
        try:
            process = subprocess.Popen(
                argv,
                cwd=folder,
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
                **_credentials(user),
            )
        except (OSError, ValueError) as error:
            raise NotStarted(_reason(argv[0], error)) from error
    _running[process.pid] = cleanup
    try:
        if record:
            record.write_text(json.dumps([process.pid, _fingerprint(process.pid), *cleanup]))
        reason = bounds.wait(lambda: process.poll() is not None)
        if reason is not None:
            _terminate(process, kill_seconds)
    finally:
        _kill(process.pid)
        del _running[process.pid]
    code = process.wait()
    if cleanup and (reason or code < 0):
        _clean_up(cleanup)
    return ProcessExit(code, timed_out=reason == TIMED_OUT, stopped=reason == DISCARDED)


def kill_all() -> None:
    """Kill all sessions of this process at once, without waiting."""
    for session, cleanup in list(_running.items()):
        _kill(session)
        _clean_up_detached(cleanup)


def end_orphan(record: Path) -> None:
    """End the program of a worker that was killed, unless its process id now belongs to another program."""
    try:
        session, fingerprint, *cleanup = json.loads(record.read_text())
        if fingerprint and fingerprint == _fingerprint(session):
            log.info(
                "ending a program whose worker was killed",
                extra={"action": "orphan-ended", "session": session},
            )
            _kill(session)
        _clean_up_detached(cleanup)
    except (OSError, ValueError, TypeError) as error:
        log.warning(
            "failed to end a program whose worker was killed",
            extra={"action": "orphan-end-failed", "record": str(record), "error": str(error)},
        )


def end_unrecorded(folder: Path) -> None:
    """End the programs of a worker that was killed before it could record them.

    Only the variables of a task's processes name files in the folder of its worker.
    """
    inside = os.fsencode(f"{folder}{os.sep}")
    for environ in _PROC.glob("[0-9]*/environ"):
        with suppress(OSError):  # the process has ended, or belongs to another user
            if inside in environ.read_bytes():
                session = os.getsid(int(environ.parent.name))
                log.info(
                    "ending a program whose worker was killed",
                    extra={"action": "orphan-ended", "session": session},
                )
                _kill(session)


def _fingerprint(pid: int) -> str | None:
    """Distinguishes a process from a later one with the same id; None if it has ended or is unknown."""
    try:
        return f"{_stat(pid)[_START_TIME]} {_BOOT.read_text().strip()}"
    except OSError:
        return None


def _clean_up_detached(cleanup: Sequence[str]) -> None:
    if cleanup:
        devnull = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
        with suppress(OSError):  # the worker is ending
            os.posix_spawn(cleanup[0], list(cleanup), os.environ, file_actions=devnull)


def _credentials(user: Identity | None) -> dict[str, Any]:
    return {"user": user.uid, "group": user.gid, "extra_groups": user.groups} if user else {}


def _reason(program: str, error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return f"program {program!r} not found"
    if isinstance(error, PermissionError):
        return f"program {program!r} is not executable"
    if isinstance(error, OSError):
        return f"cannot start program {program!r}: {error.strerror}"
    return f"cannot start program {program!r}: {error} in its arguments or environment"


def _terminate(process: subprocess.Popen[bytes], kill_seconds: float) -> None:
    """Send SIGTERM to the whole session and wait for it; the caller kills the remaining processes."""
    _signal(process.pid, signal.SIGTERM)
    deadline = time.monotonic() + kill_seconds
    while time.monotonic() < deadline:
        if process.poll() is not None and not _has_live_process(process.pid):
            return
        time.sleep(_POLL_SECONDS)


def _kill(session: int) -> None:
    """Kill all processes of a session, repeatedly, as one may fork in between; give up after a second."""
    deadline = time.monotonic() + _KILL_SECONDS
    while _signal(session, signal.SIGKILL) and _has_live_process(session) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS / 10)


def _signal(session: int, number: int) -> bool:
    """Signal all process groups of a session; return whether a process received it.

    A shell with job control, or `timeout`, creates process groups besides the leader's.
    """
    received = False
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(session, number)
        received = True
    for pid in _members(session):
        with suppress(ProcessLookupError, PermissionError):
            if os.getpgid(pid) != session:
                os.kill(pid, number)
                received = True
    return received


def _has_live_process(session: int) -> bool:
    """Whether a process of the session is alive; in a container, zombies may not be reaped for long."""
    if not _PROC.exists():
        return _signal(session, 0)
    return any(map(_is_alive, _members(session)))


def _members(session: int) -> Iterator[int]:
    """The processes of a session; none on systems without /proc."""
    try:
        pids = [int(name) for name in os.listdir(_PROC) if name.isdecimal()]
    except FileNotFoundError:
        return
    for pid in pids:
        try:
            if os.getsid(pid) == session:
                yield pid
        except (ProcessLookupError, PermissionError):  # it has ended, or belongs to another user
            continue


def _is_alive(pid: int) -> bool:
    try:
        return _stat(pid)[0] not in "ZX"
    except OSError:
        return False


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat, from the process state on."""
    return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()


def _clean_up(argv: Sequence[str]) -> None:
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_CLEANUP_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        _log_cleanup_failure(argv, str(error))
        return
    if done.returncode:
        _log_cleanup_failure(argv, done.stderr.decode(errors="replace").strip())


def _log_cleanup_failure(argv: Sequence[str], error: str) -> None:
    log.warning(
        "the cleanup command of a task failed; what the task started may still run",
        extra={"action": "cleanup-failed", "command": " ".join(argv), "error": error},
    )
