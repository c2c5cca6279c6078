"""The user that a task's program runs as."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass

from shardmill.worker.outcome import TaskRejected


@dataclass(frozen=True, slots=True)
class Identity:
    """A user of this machine other than the user of the worker."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str

    @property
    def environ(self) -> dict[str, str]:
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name}


def own_name() -> str:
    """The name of the user that this worker runs as, or its uid if it has no name."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def identity(wanted: str | None, switch: bool, task_user: str | None = None) -> Identity | None:
    """The user to switch to for a task's `executeUser`; None if it is the worker's. Raises TaskRejected.

    `task_user`: the user of tasks without an `executeUser`; then no task runs as the worker's user.
    """
    own = own_name()
    wanted = task_user if wanted is None else wanted
    if task_user and wanted == own:
        raise TaskRejected(f"this worker runs as {own!r} and runs no task as its own user")
    if wanted is None or wanted == own:
        return None
    if not switch and wanted != task_user:
        raise TaskRejected(
            f"the task must run as user {wanted!r}, but this worker runs as {own!r}: "
            "start a worker with --switch-user to run it"
        )
    try:
        found = pwd.getpwnam(wanted)
    except KeyError:
        raise TaskRejected(f"user {wanted!r} does not exist on this worker's machine") from None
    if os.geteuid() != 0:
        raise TaskRejected(f"this worker runs as {own!r} and cannot switch to {wanted!r}: that needs root")
    if task_user and found.pw_uid == os.geteuid():
        raise TaskRejected(f"user {wanted!r} has the same user ID as this worker")
    groups = tuple(os.getgrouplist(found.pw_name, found.pw_gid))
    return Identity(found.pw_name, found.pw_uid, found.pw_gid, groups, found.pw_dir)
