"""Grants: the scopes of a caller, each optionally limited to definitions, applications or worker groups."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal, get_args

Scope = Literal["read", "submit", "operate", "define", "admin", "worker"]
SCOPES: tuple[str, ...] = get_args(Scope)
LIMITS = ("definitions", "applications", "groups")


@dataclass(frozen=True, slots=True)
class Work:
    """A definition, or a Job, schedule or backfill of it; `groups` are the worker groups of its steps."""

    definition: str
    application: str = ""
    groups: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class WorkerGroups:
    """Worker groups, or a worker in them."""

    names: Collection[str]


@dataclass(frozen=True, slots=True)
class Application:
    """All definitions and Jobs of an application."""

    name: str


@dataclass(frozen=True, slots=True)
class Everything:
    """The deployment as a whole, such as its dead letters."""


Resource = Work | WorkerGroups | Application | Everything


@dataclass(frozen=True, slots=True)
class Grant:
    """A scope and its limits; None does not limit. A resource must be within each of the limits.

    A grant that is limited to definitions or applications, and not to groups, covers no worker groups.
    """

    scope: str
    definitions: tuple[str, ...] | None = None
    applications: tuple[str, ...] | None = None
    groups: tuple[str, ...] | None = None

    def gives(self, scope: str) -> bool:
        return self.scope in (scope, "admin")

    @property
    def limited(self) -> bool:
        return any(limit is not None for limit in (self.definitions, self.applications, self.groups))

    @property
    def needs_rows(self) -> bool:
        """Whether the grant depends on more than the name of a definition."""
        return self.applications is not None or self.groups is not None

    def covers_name(self, definition: str) -> bool:
        return self.definitions is None or any(
            fnmatchcase(definition, pattern) for pattern in self.definitions
        )

    def covers(self, resource: Resource) -> bool:
        if isinstance(resource, Work):
            return (
                self.covers_name(resource.definition)
                and (self.applications is None or resource.application in self.applications)
                and (self.groups is None or self._has_groups(resource.groups))
            )
        if isinstance(resource, Application):
            within = self.applications is None or resource.name in self.applications
            return within and self.definitions is None and self.groups is None
        if isinstance(resource, WorkerGroups) and self.groups is not None:
            return self._has_groups(resource.names)
        return not self.limited

    def _has_groups(self, names: Collection[str]) -> bool:
        return bool(names) and self.groups is not None and set(names) <= set(self.groups)


UNLIMITED = (Grant("admin"),)


def to_document(grant: Grant) -> str | dict[str, Any]:
    """A grant as it is written in requests, answers and rows."""
    if not grant.limited:
        return grant.scope
    limits = {name: list(getattr(grant, name)) for name in LIMITS if getattr(grant, name) is not None}
    return {"scope": grant.scope, **limits}


def from_document(document: str | Mapping[str, Any]) -> Grant:
    if isinstance(document, str):
        return Grant(document)
    limits = {name: tuple(document[name]) for name in LIMITS if document.get(name) is not None}
    return Grant(document["scope"], **limits)


def encode(grants: Iterable[Grant]) -> str:
    """Grants as text, as the authorizer passes them to the API."""
    return json.dumps([to_document(grant) for grant in grants], separators=(",", ":"))


def decode(text: str) -> tuple[Grant, ...]:
    return tuple(from_document(each) for each in json.loads(text))
