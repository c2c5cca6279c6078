"""Definitions: a head that names the newest version and holds it, and every version for itself."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from shardmill.store import keys
from shardmill.store.table import ConditionFailed, Table, TransactionRefused
from shardmill.store.update import Item, Update

MAX_STORED_BYTES = 350_000


class DefinitionTooLarge(Exception):
    """The definition is larger than one row can hold, even compressed; split it into several jobs."""


class VersionConflict(Exception):
    """Somebody else saved or deleted this definition meanwhile; read it again and repeat."""


@dataclass(frozen=True, slots=True)
class Definition:
    job_name: str
    version: int
    document: dict[str, Any]
    user: str
    create_time: int
    update_time: int


class Definitions:
    def __init__(self, table: Table) -> None:
        self._table = table

    def find(self, job_name: str) -> Definition | None:
        item = self._table.get(keys.definition_head(job_name))
        return _definition(item) if item and not item.get("deleted") else None

    def version(self, job_name: str, version: int) -> Definition | None:
        item = self._table.get(keys.definition_version(job_name, version))
        return _definition(item) if item else None

    def save(
        self, job_name: str, document: dict[str, Any], *, user: str, now: int, expected: int | None
    ) -> Definition:
        """Write the next version. `expected`: the version that must be the newest, 0 for none at all."""
        head = self._table.get(keys.definition_head(job_name)) or {}
        newest = head.get("version", 0)
        current = 0 if head.get("deleted") else newest
        if expected is not None and expected != current:
            raise VersionConflict
        packed = zlib.compress(json.dumps(document, separators=(",", ":")).encode(), 9)
        if len(packed) > MAX_STORED_BYTES:
            raise DefinitionTooLarge
        saved = Definition(job_name, newest + 1, document, user, head["create_time"] if current else now, now)
        item: Item = {
            "job_name": job_name,
            "version": saved.version,
            "document": packed,
            "user": user,
            "create_time": saved.create_time,
            "update_time": now,
        }
        write_head = Update(keys.definition_head(job_name)).set_all(
            {**item, "deleted": None, "lk": "definition", "ls": job_name}
        )
        write_head.if_equal(version=newest or None)
        try:
            self._table.transact(
                [
                    self._table.update_request(write_head),
                    self._table.put_request(
                        {**keys.definition_version(job_name, saved.version), **item}, new=True
                    ),
                ]
            )
        except TransactionRefused as error:
            raise VersionConflict from error
        return saved

    def delete(self, job_name: str, *, expected: int) -> None:
        """Hide the head; versions stay for the Jobs that run them, and numbers go on where they were."""
        update = Update(keys.definition_head(job_name)).set(deleted=True).remove("lk")
        try:
            self._table.update(update.if_equal(version=expected, deleted=None))
        except ConditionFailed as error:
            raise VersionConflict from error

    def page(self, *, after: str | None, limit: int) -> Iterator[Definition]:
        start = {**keys.definition_head(after), "lk": "definition", "ls": after} if after else None
        items = self._table.query(("lk", "definition"), index=keys.LIST, start=start, limit=limit)
        return map(_definition, items)

    def versions(self, job_name: str) -> Iterator[Definition]:
        items = self._table.query(
            ("pk", keys.definition_head(job_name)["pk"]), prefix=("sk", "v"), newest_first=True
        )
        return map(_definition, items)


def _definition(item: Item) -> Definition:
    return Definition(
        job_name=item["job_name"],
        version=item["version"],
        document=json.loads(zlib.decompress(item["document"])),
        user=item["user"],
        create_time=item["create_time"],
        update_time=item["update_time"],
    )
