"""Workers and their groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from shardmill.store import keys
from shardmill.store.rows import GroupRow, WorkerRow
from shardmill.store.table import ConditionFailed, Table
from shardmill.store.update import Update

KEEP_WORKER_SECONDS = 30 * 86400


class NameTaken(Exception):
    """Another worker's name leads to the same id; choose another name."""


class Workers:
    def __init__(self, table: Table) -> None:
        self._table = table

    def register(self, worker: WorkerRow, *, now: int) -> WorkerRow:
        """Write a worker, or take an old one of that name back with its next session."""
        changes: dict[str, Any] = {**worker.to_item(), "lk": "worker", "ls": worker.id, "ttl": _ttl(now)}
        for kept in ("id", "session", "create_time"):
            changes.pop(kept, None)
        update = Update(keys.worker(worker.id)).set_all({**changes, "id": worker.id, "offline": False})
        update.add(session=1).set_once("create_time", now)
        try:
            item = self._table.update(update.if_new_or_equal("name", worker.name), returns="ALL_NEW")
        except ConditionFailed as taken:
            raise NameTaken from taken
        return WorkerRow.from_item(item)

    def beat(
        self, worker_id: str, session: int, *, work: list[str], now: int, offline: bool
    ) -> WorkerRow | None:
        """One heartbeat; None if the worker is unknown or was registered again meanwhile."""
        update = Update(keys.worker(worker_id)).set(seen=now, work=work, offline=offline, ttl=_ttl(now))
        try:
            return WorkerRow.from_item(
                self._table.update(update.if_equal(session=session), returns="ALL_NEW")
            )
        except ConditionFailed:
            return None

    def get(self, worker_id: str) -> WorkerRow | None:
        item = self._table.get(keys.worker(worker_id))
        return WorkerRow.from_item(item) if item else None

    def by_id(self, worker_ids: Iterable[str]) -> dict[str, WorkerRow]:
        items = self._table.batch_get([keys.worker(worker_id) for worker_id in worker_ids])
        return {item["id"]: WorkerRow.from_item(item) for item in items}

    def page(self, *, after: str | None, limit: int) -> Iterator[WorkerRow]:
        start = {**keys.worker(after), "lk": "worker", "ls": after} if after else None
        items = self._table.query(("lk", "worker"), index=keys.LIST, start=start, limit=limit)
        return map(WorkerRow.from_item, items)


class Groups:
    def __init__(self, table: Table) -> None:
        self._table = table

    def get(self, name: str) -> GroupRow | None:
        item = self._table.get(keys.group(name))
        return GroupRow.from_item(item) if item else None

    def create(self, group: GroupRow) -> bool:
        try:
            self._table.put_new(
                {**keys.group(group.name), **group.to_item(), "lk": "group", "ls": group.name}
            )
        except ConditionFailed:
            return False
        return True

    def change(
        self, name: str, *, lease_seconds: int, types: Sequence[str] | None, now: int
    ) -> GroupRow | None:
        update = Update(keys.group(name)).set(lease_seconds=lease_seconds, update_time=now)
        if types is not None:
            update.set(types=list(types))
        try:
            return GroupRow.from_item(self._table.update(update.if_exists("name"), returns="ALL_NEW"))
        except ConditionFailed:
            return None

    def delete(self, name: str) -> None:
        self._table.delete(keys.group(name))

    def next_generation(self, name: str) -> int:
        answer = self._table.update(Update(keys.counter(f"group#{name}")).add(value=1), returns="UPDATED_NEW")
        return int(answer["value"])

    def page(self, *, after: str | None = None, limit: int = 100) -> Iterator[GroupRow]:
        start = {**keys.group(after), "lk": "group", "ls": after} if after else None
        items = self._table.query(("lk", "group"), index=keys.LIST, start=start, limit=limit)
        return map(GroupRow.from_item, items)


def _ttl(now: int) -> int:
    return now // 1000 + KEEP_WORKER_SECONDS
