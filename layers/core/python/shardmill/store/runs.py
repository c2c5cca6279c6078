"""The Jobs of a definition in the order of their dataTimes, and the edges of Jobs that wait for them."""

from __future__ import annotations

from collections.abc import Iterator

from shardmill.store import keys
from shardmill.store.due import run_keys
from shardmill.store.rows import JobRow
from shardmill.store.table import Table
from shardmill.store.update import Item


class Runs:
    def __init__(self, table: Table) -> None:
        self._table = table

    def between(self, job_name: str, start: int, end: int) -> Iterator[tuple[int, str]]:
        """The dataTimes and ids of the Jobs with `start <= dataTime < end`, in order."""
        partition, bounds = run_keys.runs_between(job_name, start, end)
        for item in self._table.query(partition, between=bounds, consistent=True):
            yield item["at"], item["id"]

    def waiting_for(self, job_name: str, moment: int, *, after: str = "") -> Iterator[tuple[str, str]]:
        """The positions and ids of the jobs that wait for a job of `job_name` with that dataTime.

        `after`: only those behind a position.
        """
        partition, bounds = run_keys.edges_beyond(job_name, moment, after)
        for item in self._table.query(partition, between=bounds, consistent=True):
            position = run_keys.parse_edge(item)
            if item["from"] <= moment and position != after:
                yield position, item["child"]

    def may_be_awaited(self, job_name: str, moment: int) -> bool:
        """Whether jobs wait for a job of `job_name` with that dataTime or a later one; reads one row."""
        partition, bounds = run_keys.edges_after(job_name, moment)
        found = self._table.query(partition, between=bounds, consistent=True, only=keys.KEY, limit=1)
        return next(found, None) is not None

    def all_waiting_for(self, job_name: str) -> Iterator[str]:
        """The ids of the jobs that wait for any job of `job_name`."""
        partition, _ = run_keys.edges_after(job_name, 0)
        for item in self._table.query(partition, consistent=True):
            yield item["child"]

    def add_edges(self, job: JobRow) -> None:
        """Write the edges of a job that waits again."""
        self._table.batch_put(edges(job))

    def delete_edges(self, job: JobRow) -> None:
        """Delete the edges of a job that no longer waits."""
        self._table.batch_delete([keys.key_of(row) for row in edges(job)])


def rows_of(job: JobRow) -> list[Item]:
    """The rows to write with a job, so that its dependents and the jobs that it depends on find it."""
    run = {**run_keys.run_at(job.job_name, job.moment, job.id), "id": job.id, "at": job.moment}
    return [run, *edges(job)]


def edges(job: JobRow) -> list[Item]:
    return [
        {
            **run_keys.edge(each["jobName"], each["to"], job.id, number),
            "child": job.id,
            "from": each["from"],
        }
        for number, each in enumerate(job.expected)
    ]
