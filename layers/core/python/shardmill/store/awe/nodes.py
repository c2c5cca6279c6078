"""Nodes of the node store that do not belong to an output of a job: one row each, its file in S3."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from shardmill.store import keys
from shardmill.store.row_mapping import Row, json_field
from shardmill.store.table import ConditionFailed, Table
from shardmill.store.update import Update

_READER_SECONDS = 366 * 86_400


class NodeRow(Row):
    """`job_id`: the job whose worker created it. `parts`: the number of parts of its file, if it has parts.

    Without `file_time`, its file is not complete; `size` and `sha256` describe an announced upload.
    """

    id: str
    owner: str
    create_time: int
    owner_token: str = ""
    job_id: str = ""
    file_name: str = ""
    size: int = 0
    md5: str = ""
    sha256: str = ""
    file_time: int | None = None
    parts: int = 0
    attributes: Any = json_field(lambda: None)
    indexes: Mapping[str, Mapping[str, int]] = json_field()
    update_time: int = 0
    version: int = 1


class Nodes:
    def __init__(self, table: Table) -> None:
        self._table = table

    def create(self, row: NodeRow) -> None:
        self._table.put_new({**keys.node(row.id), **row.to_item()})

    def get(self, node_id: str) -> NodeRow | None:
        item = self._table.get(keys.node(node_id))
        return NodeRow.from_item(item) if item else None

    def change(self, row: NodeRow, *, now: int, **changes: Any) -> NodeRow | None:
        """Change a node unless it was changed or deleted since it was read; else return None."""
        changed = row.evolve(**changes, version=row.version + 1, update_time=now)
        item = changed.to_item()
        names = (*changes, "version", "update_time")
        update = Update(keys.node(row.id)).set_all({name: item.get(name) for name in names})
        try:
            self._table.update(update.if_equal(version=row.version))
        except ConditionFailed:
            return None
        return changed

    def add_readers(self, node_ids: Iterable[str], token: str, job_id: str, *, now: int) -> None:
        """Note that a job reads nodes; `token` is the hash of its data token."""
        row = {"job": job_id, "ttl": now // 1000 + _READER_SECONDS}
        self._table.batch_put([keys.node_reader(each, token, job_id) | row for each in sorted(set(node_ids))])

    def readers(self, node_id: str, token: str) -> Iterator[str]:
        """The ids of the jobs with a data token that read a node."""
        place = keys.partition_of(keys.node(node_id))
        for item in self._table.query(place, prefix=keys.node_readers(token), consistent=True):
            yield str(item["job"])

    def delete(self, node_id: str) -> None:
        self._table.delete(keys.node(node_id))
