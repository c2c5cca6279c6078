"""The actor of a request that API Gateway authorized with IAM, on the routes below /iam/."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from shardmill.model.access.claims import IAM_PREFIX, MAX_USER
from shardmill.model.access.grants import SCOPES, Grant
from shardmill.model.actor import Actor

PREFIX = "/iam"


def path_below(path: str, identity: Mapping[str, Any]) -> str:
    """The path of the API that a path names; the prefix is removed only for requests with an IAM identity."""
    return path.removeprefix(PREFIX) if identity and path.startswith(f"{PREFIX}/") else path


def actor_of(identity: Mapping[str, Any], scopes: Iterable[str]) -> Actor | None:
    """The actor of an IAM identity with these scopes; IAM policies limit its methods and paths.

    Workers belong to the user or role, not to one of its sessions.
    """
    arn = identity.get("userArn")
    if not isinstance(arn, str) or arn.count(":") < 5:
        return None
    kind, _, name = arn.split(":", 5)[5].partition("/")
    principal = arn.rpartition("/")[0] if kind == "assumed-role" else arn
    grants = tuple(Grant(scope) for scope in scopes if scope in SCOPES)
    token_id = "iam-" + hashlib.sha256(principal.encode()).hexdigest()[:16]
    return Actor(f"{IAM_PREFIX}{name or kind}"[:MAX_USER], grants, token_id)
