"""The data token of a job: one row in the job's partition, and the only place where a token is stored.

No list, view, event or execution reads this row. It is deleted with its job.
"""

from __future__ import annotations

from shardmill.store import keys
from shardmill.store.table import Table
from shardmill.store.update import Item


class DataTokens:
    def __init__(self, table: Table) -> None:
        self._table = table

    def creation(self, job_id: str, data_token: str) -> Item:
        """The write that stores the token, for the transaction that creates the job."""
        return self._table.put_request({**keys.job_secret(job_id), "data_token": data_token})

    def put(self, job_id: str, data_token: str) -> None:
        """Store or replace the token of a job."""
        self._table.transact([self.creation(job_id, data_token)])

    def get(self, job_id: str) -> str | None:
        item = self._table.get(keys.job_secret(job_id))
        return str(item["data_token"]) if item else None

    def delete(self, job_id: str) -> None:
        self._table.delete(keys.job_secret(job_id))
