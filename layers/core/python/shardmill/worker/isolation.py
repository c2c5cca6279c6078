"""Keep the credentials of a worker from its tasks, which are children of its process.

A task that runs as the worker's user could otherwise read the worker's environment, memory and open files in
/proc or attach to it as a debugger. A task that runs as root can still do so, but the environment and the
command line no longer contain credentials.
"""

from __future__ import annotations

import ctypes
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path

from shardmill.aws import credentials

log = logging.getLogger("shardmill.worker")

TOKEN = "SHARDMILL_TOKEN"  # noqa: S105 - the name of a variable
_PR_SET_DUMPABLE = 4
_ARGUMENTS, _ENVIRONMENT = 45, 47  # the fields of /proc/self/stat after the name that have the addresses
_FILL = b"x"


def protect(token: str | None = None) -> None:
    """Remove credentials from the visible parts of this process, and deny access to all other parts.

    `token` is the API token if it was given on the command line. Call this before AWS clients are created.
    """
    os.environ.pop(TOKEN, None)
    credentials.take_from_environment()
    if sys.platform != "linux":
        _warn("only Linux can protect a process from others of the same user")
        return
    try:
        _overwrite_initial_values(token)
        _deny_access()
    except (OSError, ValueError, IndexError) as error:
        _warn(str(error))


def _deny_access() -> None:
    """Give /proc/PID to root; forbid debuggers and core files. Programs that it starts are not affected."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_DUMPABLE) failed")


def _overwrite_initial_values(token: str | None) -> None:
    """Overwrite credentials in the memory where the kernel put them at the start, which /proc/PID shows.

    The C library no longer uses these bytes: the variables were removed before.
    """
    names = {name.encode() for name in (TOKEN, *credentials.VARIABLES)}
    stat = Path("/proc/self/stat").read_text().rpartition(")")[2].split()

    def variable(entry: bytes) -> int:
        name, equals, _ = entry.partition(b"=")
        return len(name) + 1 if equals and name in names else len(entry)

    def argument(entry: bytes) -> int:
        return len(entry) - len(secret) if secret and entry in (secret, b"--token=" + secret) else len(entry)

    secret = os.fsencode(token) if token else b""
    _overwrite(int(stat[_ENVIRONMENT]), int(stat[_ENVIRONMENT + 1]), variable)
    _overwrite(int(stat[_ARGUMENTS]), int(stat[_ARGUMENTS + 1]), argument)


def _overwrite(start: int, end: int, public: Callable[[bytes], int]) -> None:
    """Overwrite the entries between two addresses, except the first `public` bytes of each."""
    at = start
    for entry in ctypes.string_at(start, end - start).split(b"\0") if start else ():
        kept = public(entry)
        ctypes.memset(at + kept, _FILL[0], len(entry) - kept)
        at += len(entry) + 1


def _warn(error: str) -> None:
    log.warning(
        "tasks that run as this worker's user can read its memory; run them as another user",
        extra={"action": "worker-not-isolated", "error": error},
    )
