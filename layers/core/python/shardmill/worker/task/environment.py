"""The environment of a task's program."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import PurePath

from shardmill.model.templates.render import as_text
from shardmill.model.worker import Lease
from shardmill.worker.task.outcome import Faulty
from shardmill.worker.task.users import Identity
from shardmill.worker.task.workdir import OUTPUT, PARAMS, PROGRESS

MAX_VALUE_BYTES = 100_000
"""Linux takes 128 KB for one argument or variable, with its name."""

_MAX_BYTES = 1_000_000
# What a task's program inherits; all else in the worker's environment, its credentials too, stays with it.
_INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")


def inherited(user: Identity | None, more: Iterable[str] = ()) -> dict[str, str]:
    """What every program has of the worker's environment, and what its kind needs besides."""
    kept = {name: os.environ[name] for name in (*_INHERITED, *more) if name in os.environ}
    return {"PATH": os.defpath, **kept, **(user.environ if user else {})}


def given(lease: Lease, told: PurePath) -> dict[str, str]:
    """What the task gives; `told` is where its program finds the files of that name. Raises Faulty."""
    environ = _fitting(lease)
    environ |= {
        "SHARDMILL_OUTPUT": str(told / OUTPUT),
        "SHARDMILL_PROGRESS": str(told / PROGRESS),
        "SHARDMILL_PARAMS_FILE": str(told / PARAMS),
    }
    if lease.execute_user:
        environ["SHARDMILL_EXECUTE_USER"] = lease.execute_user
    return environ


def params_text(lease: Lease) -> str:
    return lease.environ.get("SHARDMILL_PARAMS") or json.dumps(lease.params)


def _fitting(lease: Lease) -> dict[str, str]:
    """Parameters that are too big for an environment are left out: they are in the file of parameters."""
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
            raise Faulty(
                f"the environment variable {name!r} has {sizes[name]} bytes, and a program takes "
                f"{MAX_VALUE_BYTES} at most: give it as a parameter and read $SHARDMILL_PARAMS_FILE"
            )
    return left


def _is_param(lease: Lease, name: str) -> bool:
    return name in lease.params and as_text(lease.params[name]) == lease.environ[name]
