"""Check that a token may act as a worker: it must have registered it, in groups within its scope."""

from __future__ import annotations

from collections.abc import Sequence

from shardmill.engine.access.errors import Forbidden
from shardmill.engine.errors import WorkerNotFound
from shardmill.engine.mill import Mill
from shardmill.model.access.grants import WorkerGroups
from shardmill.model.actor import Actor
from shardmill.store.rows import WorkerRow

Owner = tuple[str, Sequence[str]]


def unknown_worker(worker_id: str) -> WorkerNotFound:
    return WorkerNotFound(f"there is no worker {worker_id!r}; register with POST /v1/workers")


def check_registration(
    mill: Mill, known: WorkerRow | None, groups: Sequence[str], actor: Actor, now: int, *, alive: bool
) -> None:
    """Raise Forbidden unless the actor may register a worker in groups, and replace the one of its name.

    A worker that is `alive` is replaced only by its own token: its tasks go with its name.
    """
    if not _may(actor, groups):
        raise Forbidden(f"the token has no scope 'worker' for the groups {', '.join(sorted(groups))}")
    if not known or not actor.limited("admin") or _is_owner(actor, (known.owner_token, known.groups)):
        return
    owned = alive and _is_in_use(mill, known.owner_token, now)
    if owned or not _may(actor, known.groups):
        advice = ", or delete that worker first" if owned else ""
        raise Forbidden(
            f"a worker of the name {known.name!r} belongs to another token; choose another name{advice}"
        )


def _is_in_use(mill: Mill, token_id: str, now: int) -> bool:
    """Whether a token is still valid; OIDC and IAM tokens have no row, workers with `--aws` have no token."""
    if not token_id or token_id.startswith(("oidc-", "iam-")):
        return True
    row = mill.tokens.get(token_id)
    return row is not None and bool(row.valid_hashes(now))


def check_owner(mill: Mill, actor: Actor, worker_id: str, now: int) -> None:
    """Raise WorkerNotFound unless the actor may act as a worker.

    The owner of a worker is read once a minute, not for each request.
    """
    if not actor.limited("admin"):
        return
    found = mill.worker_owners.get([worker_id], lambda _: {}, now).get(worker_id)
    if found and _is_owner(actor, found):
        return
    worker = mill.workers.get(worker_id)
    if worker:
        mill.worker_owners.put(worker_id, (worker.owner_token, worker.groups), now)
    if not worker or not _is_owner(actor, (worker.owner_token, worker.groups)):
        raise unknown_worker(worker_id)


def _is_owner(actor: Actor, owner: Owner) -> bool:
    token_id, groups = owner
    return bool(token_id) and token_id == actor.token_id and _may(actor, groups)


def _may(actor: Actor, groups: Sequence[str]) -> bool:
    return actor.may("worker", WorkerGroups(groups))
