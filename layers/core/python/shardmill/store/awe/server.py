"""The identity of a deployment as an AWE server: a uuid that is written once and never changes."""

from __future__ import annotations

from dataclasses import dataclass

from shardmill.store import keys
from shardmill.store.table import ConditionFailed, Table


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    uuid: str
    create_time: int


class ServerIdentities:
    def __init__(self, table: Table) -> None:
        self._table = table
        self._known: ServerIdentity | None = None

    def get(self, new_uuid: str, now: int) -> ServerIdentity:
        """The identity of the deployment; the first call of all processes stores `new_uuid`."""
        if not self._known:
            key = keys.awe_server()
            item = self._table.get(key)
            if not item:
                item = {**key, "uuid": new_uuid, "create_time": now}
                try:
                    self._table.put_new(item)
                except ConditionFailed as lost:
                    item = lost.old or item
            self._known = ServerIdentity(item["uuid"], int(item["create_time"]))
        return self._known
