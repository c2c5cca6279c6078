"""Definitions: a head row with the newest version, and a row for each version."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from shardmill.model.access.limits import Limits
from shardmill.store import indexes, keys
from shardmill.store.access.usage import LimitExceeded, Usage
from shardmill.store.row_mapping import Row
from shardmill.store.table import ConditionFailed, Contended, Table, TransactionRefused
from shardmill.store.update import Item, Update

MAX_STORED_BYTES = 350_000
_ONE = Limits(definitions=1)
_OF_HEAD = ("suspended", "counted_in")

Expected = int | Literal["any"] | None
"""The newest version that a write requires: its number, 0 for none at all, or any; None for no check."""


class DefinitionTooLarge(Exception):
    """The definition exceeds the size of a row, even compressed; split it into several jobs."""


class VersionConflict(Exception):
    """The definition was saved or deleted concurrently; retry."""


class VersionMismatch(Exception):
    """The newest version is not the expected one."""

    def __init__(self, version: int) -> None:
        super().__init__(self.__doc__)
        self.version = version


@dataclass(frozen=True, slots=True)
class Definition:
    job_name: str
    version: int
    document: dict[str, Any]
    user: str
    create_time: int
    update_time: int
    suspended: str = ""
    resumed: int = 0


class Listed(Row):
    """A version of a definition without its document, for lists."""

    job_name: str
    version: int
    user: str
    create_time: int
    update_time: int
    step_count: int = 0
    description: str = ""
    app_name: str = ""
    parents: Sequence[str] = ()
    groups: Sequence[str] = ()
    """The worker groups of its steps; `default` for steps that name none. Empty in rows of older versions."""
    suspended: str = ""
    counted_in: str = ""
    """The application against whose limits the definition counts; only the head has it."""


class Definitions:
    def __init__(self, table: Table, usage: Usage | None = None) -> None:
        self._table = table
        self._usage = usage or Usage(table, Limits())

    def find(self, job_name: str) -> Definition | None:
        item = self._table.get(keys.definition_head(job_name))
        return _definition(item) if item and not item.get("deleted") else None

    def version(self, job_name: str, version: int) -> Definition | None:
        item = self._table.get(keys.definition_version(job_name, version))
        return _definition(item) if item else None

    def save(
        self,
        job_name: str,
        document: dict[str, Any],
        *,
        user: str,
        now: int,
        expected: Expected,
        graph: int | None = None,
    ) -> Definition:
        """Write the next version. Raises LimitExceeded if its application may not have another definition.

        `graph`: the revision of the dependency graph that its dependencies were validated against; if they
        change, it must still be the current one.
        """
        head = self._table.get(keys.definition_head(job_name)) or {}
        newest = head.get("version", 0)
        current = 0 if head.get("deleted") else newest
        if expected not in (None, current) and not (expected == "any" and current):
            raise VersionMismatch(current)
        packed = zlib.compress(json.dumps(document, separators=(",", ":")).encode(), 9)
        if len(packed) > MAX_STORED_BYTES:
            raise DefinitionTooLarge
        saved = Definition(
            job_name=job_name,
            version=newest + 1,
            document=document,
            user=user,
            create_time=head["create_time"] if current else now,
            update_time=now,
            suspended=head.get("suspended", ""),
        )
        application = _listed(saved).app_name
        counted = head.get("counted_in", "")
        counts = self._usage.reference(application, counted)
        moves = self._usage.moves(counted, counts, _ONE)
        requests = [*self._writes(saved, packed, head, graph, counts if moves else None), *moves]
        try:
            self._table.transact(requests)
        except (TransactionRefused, Contended) as error:
            if moves and isinstance(error, TransactionRefused) and error.failed == [len(requests) - 1]:
                raise LimitExceeded(application, _ONE) from error
            raise VersionConflict from error
        return saved

    def _writes(
        self, saved: Definition, packed: bytes, head: Item, graph: int | None, counts: str | None
    ) -> Iterator[Item]:
        """The writes of a version on condition that `head` is the present head row.

        `counts`: the application that counts the definition from now on, if that changes.
        """
        listed = _listed(saved)
        item: Item = {**listed.to_item(), "document": packed}
        emptied = {name: None for name in Listed.names() if name not in item and name not in _OF_HEAD}
        write_head = Update(keys.definition_head(saved.job_name)).set_all(
            {**item, **emptied, "deleted": None, **indexes.listed(indexes.DEFINITIONS, saved.job_name)}
        )
        write_head.if_equal(version=head.get("version"))
        if counts is not None:
            write_head.set(counted_in=counts).if_equal(counted_in=head.get("counted_in") or None)
        yield self._table.update_request(write_head)
        version = {**keys.definition_version(saved.job_name, saved.version), **item}
        yield self._table.put_request(version, new=True)
        before = [] if head.get("deleted") else head.get("parents", [])
        yield from self._edges(saved.job_name, before, listed.parents, graph)

    def _edges(
        self, job_name: str, old: Sequence[str], new: Sequence[str], graph: int | None
    ) -> Iterator[Item]:
        """The writes that make a definition known to the definitions that it depends on."""
        if set(old) == set(new):
            return
        for parent in set(new) - set(old):
            yield self._table.put_request(keys.definition_child(parent, job_name))
        for parent in set(old) - set(new):
            yield self._table.delete_request(keys.definition_child(parent, job_name))
        if graph is not None:
            raised = Update(keys.graph_counter()).set(value=graph + 1).if_equal(value=graph or None)
            yield self._table.update_request(raised)

    def heads(self, job_names: Iterable[str]) -> dict[str, Listed]:
        """The newest versions of the definitions that exist."""
        wanted = [keys.definition_head(name) for name in job_names]
        items = self._table.batch_get(wanted, only=(*Listed.names(), "deleted"))
        return {item["job_name"]: Listed.from_item(item) for item in items if not item.get("deleted")}

    def graph_revision(self) -> int:
        """The revision of the dependencies between definitions; every change increments it."""
        return int((self._table.get(keys.graph_counter()) or {}).get("value", 0))

    def parents(self, job_names: Iterable[str]) -> dict[str, list[str]]:
        """The definitions that each of the given ones depends on."""
        items = self._table.batch_get([keys.definition_head(name) for name in job_names])
        return {item["job_name"]: item.get("parents", []) for item in items if not item.get("deleted")}

    def children(self, job_name: str, *, after: str = "") -> Iterator[str]:
        """The names of the definitions that depend on this one, in order, starting after the name `after`."""
        partition = keys.partition_of(keys.definition_head(job_name))
        start = keys.definition_child(job_name, after) if after else None
        items = self._table.query(partition, prefix=keys.DEFINITION_CHILDREN, consistent=True, start=start)
        return map(keys.parse_child, items)

    def has_children(self, job_name: str) -> bool:
        """Whether another definition depends on this one; reads two rows at most."""
        partition = keys.partition_of(keys.definition_head(job_name))
        items = self._table.query(partition, prefix=keys.DEFINITION_CHILDREN, consistent=True, limit=2)
        return any(keys.parse_child(item) != job_name for item in islice(items, 2))

    def usage(self, job_name: str) -> tuple[int | None, int, str]:
        """A value that changes whenever a schedule or another definition begins to depend on this one."""
        head = self._table.get(keys.definition_head(job_name)) or {}
        return head.get("used"), self.graph_revision(), head.get("counted_in", "")

    def delete(
        self, job_name: str, *, version: int, parents: list[str], use: tuple[int | None, int, str]
    ) -> None:
        """Mark the head as deleted; versions stay for the jobs that use them, and numbering continues.

        `use`: the value of `usage` before the caller checked that nothing depends on the definition.
        """
        used, graph, counted = use
        hidden = Update(keys.definition_head(job_name)).set(deleted=True)
        hidden.remove(*indexes.UNLIST, "suspended", "counted_in")
        hidden.if_equal(version=version, deleted=None, used=used, counted_in=counted or None)
        judged = Update(keys.graph_counter()).if_equal(value=graph or None)
        try:
            self._table.transact(
                [
                    self._table.update_request(hidden),
                    self._table.check_request(judged),
                    *self._edges(job_name, parents, [], None),
                    self._table.delete_request(keys.child_start(job_name)),
                    *self._usage.moves(counted, "", _ONE),
                ]
            )
        except (TransactionRefused, Contended) as error:
            raise VersionConflict from error

    def suspend(self, job_name: str, why: str | None, *, now: int) -> Definition | None:
        """Suspend a definition, or resume it if `why` is None; returns None if it does not exist."""
        update = Update(keys.definition_head(job_name)).set(suspended=why)
        if why is None:
            update.set(resumed=now)
        update.if_exists("version").if_equal(deleted=None)
        try:
            return _definition(self._table.update(update, returns="ALL_NEW"))
        except ConditionFailed:
            return None

    def page(self, *, after: str | None, limit: int) -> Iterator[Listed]:
        start = (
            {**keys.definition_head(after), **indexes.listed(indexes.DEFINITIONS, after)} if after else None
        )
        partition = indexes.all_of(indexes.DEFINITIONS)
        items = indexes.listed_rows(
            self._table, [partition], indexes.LIST, start=start, limit=limit, only=Listed.names()
        )
        return map(Listed.from_item, items)

    def versions(self, job_name: str, *, before: int | None, limit: int) -> Iterator[Listed]:
        """The versions of a definition, newest first."""
        partition, bounds = keys.definition_versions(job_name, before=before)
        items = self._table.query(
            partition, between=bounds, newest_first=True, limit=limit, only=Listed.names()
        )
        return map(Listed.from_item, items)


def _listed(saved: Definition) -> Listed:
    return Listed(
        job_name=saved.job_name,
        version=saved.version,
        user=saved.user,
        create_time=saved.create_time,
        update_time=saved.update_time,
        step_count=len(saved.document["steps"]),
        description=saved.document.get("description", ""),
        app_name=saved.document.get("appName", ""),
        parents=sorted({each["jobName"] for each in saved.document.get("dependencies", ())}),
        groups=named_groups(saved.document),
    )


def named_groups(document: dict[str, Any]) -> list[str]:
    """The worker groups of a definition's steps; `default` for steps that name none."""
    usual = document.get("workerGroups") or ["default"]
    return sorted({name for step in document["steps"] for name in step.get("workerGroups") or usual})


def _definition(item: Item) -> Definition:
    return Definition(
        job_name=item["job_name"],
        version=item["version"],
        document=json.loads(zlib.decompress(item["document"])),
        user=item["user"],
        create_time=item["create_time"],
        update_time=item["update_time"],
        suspended=item.get("suspended", ""),
        resumed=item.get("resumed", 0),
    )
