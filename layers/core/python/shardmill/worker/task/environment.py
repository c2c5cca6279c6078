"""The environment variables of a task's program."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import PurePath

from shardmill.model.templates.render import as_text
from shardmill.model.worker import Lease
from shardmill.worker.outcome import InvalidTask
from shardmill.worker.task.users import Identity
from shardmill.worker.task.workdir import CHECKPOINT, OUTPUT, PARAMS, PROGRESS

MAX_VALUE_BYTES = 100_000
"""Linux allows 128 KB for one argument or variable, with its name."""

_MAX_BYTES = 1_000_000
# Nothing else of the worker's environment, such as its credentials, is passed to tasks.
# The Python of Lambda does not start without LD_LIBRARY_PATH.
_INHERITED = (
    *("PATH", "LD_LIBRARY_PATH", "HOME", "USER", "LOGNAME", "TMPDIR"),
    *("LANG", "LC_ALL", "LC_CTYPE", "TZ"),
)


def inherited(user: Identity | None, more: Iterable[str] = ()) -> dict[str, str]:
    """The variables of the worker that a program inherits; `more`: additional ones for its type."""
    kept = {name: os.environ[name] for name in (*_INHERITED, *more) if name in os.environ}
    return {"PATH": os.defpath, **kept, **(user.environ if user else {})}


def of_task(lease: Lease, channel: PurePath) -> dict[str, str]:
    """The variables of the task; `channel` is the path of the channel for its program. Raises InvalidTask."""
    environ = _fitting(lease)
    environ |= {
        "SHARDMILL_OUTPUT": str(channel / OUTPUT),
        "SHARDMILL_PROGRESS": str(channel / PROGRESS),
        "SHARDMILL_CHECKPOINT": str(channel / CHECKPOINT),
        "SHARDMILL_PARAMS_FILE": str(channel / PARAMS),
    }
    if lease.execute_user:
        environ["SHARDMILL_EXECUTE_USER"] = lease.execute_user
    return environ


def params_text(lease: Lease) -> str:
    return lease.environ.get("SHARDMILL_PARAMS") or json.dumps(lease.params)


def _fitting(lease: Lease) -> dict[str, str]:
    """Omit parameters that are too large for the environment; they are in the parameter file."""
    left = dict(lease.environ)
    sizes = {name: len(name) + len(os.fsencode(value)) for name, value in left.items()}
    total = sum(sizes.values())
    for name in sorted(sizes, key=sizes.__getitem__, reverse=True):
        if sizes[name] <= MAX_VALUE_BYTES and total <= _MAX_BYTES:
            break
        if name == "SHARDMILL_PARAMS" or _is_param(lease, name):
            del left[name]
            total -= sizes[name]
        elif sizes[name] > MAX_VALUE_BYTES:
            raise InvalidTask(
                f"the environment variable {name!r} has {sizes[name]} bytes; the maximum is "
                f"{MAX_VALUE_BYTES}: pass it as a parameter and read $SHARDMILL_PARAMS_FILE"
            )
    return left


def _is_param(lease: Lease, name: str) -> bool:
    return name in lease.params and as_text(lease.params[name]) == lease.environ[name]
