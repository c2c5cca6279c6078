"""DynamoDB keys of the jobs of a definition by dataTime, and of the jobs that wait for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shardmill.store.keys import MAX_TIME, Key, Partition, Range, partition_of, sort_time


def run_at(job_name: str, data_time: int, job_id: str) -> Key:
    """A job among the jobs of its definition, ordered by dataTime."""
    return {"pk": f"RUN#{job_name}", "sk": f"{sort_time(data_time)}#{job_id}"}


def runs_between(job_name: str, start: int, end: int) -> tuple[Partition, Range]:
    """The jobs of a definition with `start <= dataTime < end`."""
    return partition_of(run_at(job_name, 0, "")), ("sk", sort_time(start), sort_time(end))


def edge(parent: str, until: int, child_id: str, number: int) -> Key:
    """A job that waits for jobs of `parent`, ordered by the end of the dataTimes that it waits for."""
    return {"pk": f"EDGE#{parent}", "sk": f"{sort_time(until)}#{child_id}#{number:03d}"}


def edges_after(parent: str, moment: int) -> tuple[Partition, Range]:
    """The edges whose dataTimes end after `moment`."""
    last = sort_time(10**15 - MAX_TIME - 1) + "~"
    return partition_of(edge(parent, 0, "", 0)), ("sk", sort_time(moment + 1), last)


def edges_beyond(parent: str, moment: int, after: str) -> tuple[Partition, Range]:
    """The edges whose dataTimes end after `moment`, from the sort key `after` on."""
    partition, (name, first, last) = edges_after(parent, moment)
    return partition, (name, max(first, after), last)


def parse_edge(item: Mapping[str, Any]) -> str:
    """The position of an edge among the edges of its parent."""
    return str(item["sk"])
