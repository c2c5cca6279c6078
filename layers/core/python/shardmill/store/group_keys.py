"""DynamoDB keys of a worker group: its row, its workers, and the steps that need its attention."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from shardmill.store.keys import Key, StepKey, parse_step_reference, prefix, step_reference

EVERY_GROUP = "*"
"""The name of the row that represents all groups."""

EVERY_APP = ""
"""In place of the name of a program: all workers of a group, whatever they run."""

_MEMBER = "worker#"
_UNMATCHED = "stuck#"
_GIANT = "giant#"
_MAX_APP = 200


def group(name: str) -> Key:
    return {"pk": f"GROUP#{name}", "sk": "group"}


def member(group_name: str, worker_id: str, app: str = EVERY_APP) -> Key:
    """A worker of a group, among all workers or among workers that run a program."""
    return {"pk": f"GROUP#{group_name}", "sk": f"{members_with(app)[1]}{worker_id}"}


def members_with(app: str) -> tuple[str, str]:
    """The workers of a group that run a program, or all of them for `EVERY_APP`."""
    name = quote(app, safe="")
    short = name if len(name) <= _MAX_APP else hashlib.sha256(app.encode()).hexdigest()
    return prefix(f"{_MEMBER}{short}#")


def unmatched(group_name: str, job_id: str, run: int, step: int) -> Key:
    """Tasks of a step that no live worker of a group can run."""
    return {"pk": f"GROUP#{group_name}", "sk": f"{_UNMATCHED}{job_id}#{run}#{step}"}


UNMATCHED = prefix(_UNMATCHED)


def giant(group_name: str, step: StepKey) -> Key:
    """An open step with so many tasks that the other steps of the group should not have to wait for them."""
    return {"pk": f"GROUP#{group_name}", "sk": f"{_GIANT}{step_reference(step)}"}


def parse_giant(item: Mapping[str, Any]) -> StepKey:
    return parse_step_reference(str(item["sk"]).removeprefix(_GIANT))


GIANTS = prefix(_GIANT)
