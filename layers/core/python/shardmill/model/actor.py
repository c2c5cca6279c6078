"""The caller of a use case, passed to it explicitly."""

from __future__ import annotations

from dataclasses import dataclass

from shardmill.model.access.grants import UNLIMITED, Grant, Resource


@dataclass(frozen=True, slots=True)
class Actor:
    """`name` is recorded as the user. Without `grants`, it may do everything: the engine acts for it."""

    name: str
    grants: tuple[Grant, ...] = UNLIMITED
    token_id: str = ""
    """The id of the token; empty for the admin token of the deployment and for the engine."""

    def has(self, scope: str) -> bool:
        return any(grant.gives(scope) for grant in self.grants)

    def may(self, scope: str, resource: Resource) -> bool:
        return any(grant.gives(scope) and grant.covers(resource) for grant in self.grants)

    def may_name(self, scope: str, definition: str) -> bool:
        """Whether the name of a definition is within a grant; its application and groups may not be."""
        return any(grant.gives(scope) and grant.covers_name(definition) for grant in self.grants)

    def limited(self, scope: str) -> bool:
        """Whether there are resources that the actor may not use in this scope."""
        return not any(grant.gives(scope) and not grant.limited for grant in self.grants)

    def needs_rows(self, scope: str) -> bool:
        """Whether the permissions for a definition can depend on more than its name."""
        return any(grant.gives(scope) and grant.needs_rows for grant in self.grants)


def suspended_by(actor: Actor, reason: str) -> str:
    """The notes of something that is suspended."""
    return f"suspended by {actor.name}" + (f": {reason}" if reason else "")
