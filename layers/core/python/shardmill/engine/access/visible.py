"""Resources that an actor may see or use: filters for lists, and checks that read the rows they need."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from shardmill.engine.access.errors import Forbidden
from shardmill.engine.mill import Mill
from shardmill.model.access.grants import Work, WorkerGroups
from shardmill.model.actor import Actor
from shardmill.store.definitions import Listed
from shardmill.store.rows import JobRow
from shardmill.store.table import MAX_BATCH

if TYPE_CHECKING:
    from shardmill.model.definition.fields import JobDefine

T = TypeVar("T")


def work_of_job(job: JobRow) -> Work:
    return Work(job.job_name, job.app_name, job.groups)


def work_of_definition(row: Listed) -> Work:
    return Work(row.job_name, row.app_name, row.groups)


class Visible:
    """Decides which resources an actor may see, or use in another scope; reads rows of definitions once."""

    def __init__(self, mill: Mill, actor: Actor, scope: str = "read") -> None:
        self._mill = mill
        self._actor = actor
        self._scope = scope
        self.all = not actor.limited(scope)
        self._known: dict[str, bool] = {}

    def work(self, work: Work) -> bool:
        return self.all or self._actor.may(self._scope, work)

    def job(self, job: JobRow) -> bool:
        return self.work(work_of_job(job))

    def groups(self, names: Collection[str]) -> bool:
        return self.all or self._actor.may(self._scope, WorkerGroups(names))

    def listed(self, row: Listed) -> bool:
        return self.work(work_of_definition(row))

    def definition(self, name: str) -> bool:
        return self.all or bool(self.definitions([name]))

    def definitions(self, names: Iterable[str]) -> set[str]:
        """The names whose definition exists and is visible."""
        wanted = set(names)
        if self.all:
            return wanted
        if not self._actor.needs_rows(self._scope):
            return {name for name in wanted if self._actor.may_name(self._scope, name)}
        missing = [name for name in wanted - self._known.keys() if self._actor.may_name(self._scope, name)]
        found = self._mill.definitions.heads(missing) if missing else {}
        self._known |= {name: name in found and self.listed(found[name]) for name in missing}
        return {name for name in wanted if self._known.get(name)}

    def of_definitions(self, rows: Iterable[T], name: str = "job_name") -> Iterator[tuple[T, bool]]:
        """Each row with whether its definition is visible; definitions are read in batches."""
        if self.all:
            yield from ((row, True) for row in rows)
            return
        left = iter(rows)
        while chunk := list(islice(left, MAX_BATCH)):
            names: list[Any] = [getattr(row, name) for row in chunk]
            visible = self.definitions(names)
            yield from ((row, each in visible) for row, each in zip(chunk, names, strict=True))


def bound_groups_of(mill: Mill, define: JobDefine) -> set[str]:
    """The worker groups that run steps of a definition because the types of the steps are bound to them."""
    types = {str(step.type) for step in define.steps if not step.worker_groups}
    bound = mill.groups.bound() if types else {}
    return {name for kind in types for name in bound.get(kind, ())}


def check_groups(actor: Actor, scope: str, work: Work) -> None:
    """Raise Forbidden if this work would go to groups that the actor may not use for it."""
    if work.groups and not actor.may(scope, work):
        raise Forbidden(f"this would use worker groups for which the token has no scope {scope!r}")


def check_jobs(actor: Actor, scope: str, jobs: Iterable[JobRow]) -> None:
    """Raise Forbidden if an action would reach Jobs that the actor may not use; names none of them."""
    if not all(actor.may(scope, work_of_job(job)) for job in jobs):
        raise Forbidden(f"the action would also reach Jobs for which the token has no scope {scope!r}")
