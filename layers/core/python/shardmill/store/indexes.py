"""The secondary indexes of the table: the attributes that put a row into them, and how lists read them.

| index | partition | sort | finds |
| --- | --- | --- | --- |
| `list` | `lk` | `ls` | all jobs, definitions, schedules, workers or groups |
| `name` | `nk` | `ls` | the jobs of a definition |
| `state` | `tk` | `ls` | the jobs in a state |
| `due` | `dk` | `da` | the rows that the tick has to process, by time |

A partition of an index takes 1,000 write units a second, so jobs are spread over several: `job`, `job#1`, …
docs/scale.md has the arithmetic. The indexes hold keys and little else, so that a change of a row rewrites no
entry: a list reads the entries of a page, then the rows.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import Any

from shardmill.store import keys
from shardmill.store.keys import Key, Partition, Range, sort_number
from shardmill.store.table import Table
from shardmill.store.update import Item

LIST = "list"
NAME = "name"
STATE = "state"
DUE = "due"

JOBS = "job"
DEFINITIONS = "definition"
SCHEDULES = "schedule"
WORKERS = "worker"
GROUPS = "group"

DUE_JOBS = "due"
DUE_SCHEDULES = "schedule"
DUE_BACKFILLS = "backfill"
DUE_DEADLINES = "deadline"
DUE_TIME = "da"
LIST_SORT = "ls"

UNLIST = ("lk",)
"""The attributes to remove from a row that lists no longer show."""
UNLIST_JOB = ("lk", "nk")

_JOB_PARTITIONS = 8
_DUE_PARTITIONS = 16
_CHUNK = 100  # the rows of one BatchGetItem
_MAX_NUMBER = 10**12 - 1
_MAX_TIME = 10**14


def listed(kind: str, sort: str) -> Key:
    """The attributes that put a row into the index `list`."""
    return {"lk": kind, "ls": sort}


def not_listed() -> dict[str, None]:
    return {"lk": None, "ls": None}


def all_of(kind: str) -> Partition:
    """All rows of a kind, in the index `list`."""
    return "lk", kind


def listed_job(job_id: str, jid: int, job_name: str) -> Key:
    """The attributes that put a job into the indexes `list` and `name`."""
    return {**listed(_spread(JOBS, job_id, _JOB_PARTITIONS), sort_number(jid)), "nk": job_name}


def all_jobs() -> list[Partition]:
    """The partitions of the index `list` that together hold all jobs."""
    return [all_of(name) for name in _partitions(JOBS, _JOB_PARTITIONS)]


def jobs_named(job_name: str) -> Partition:
    """The jobs of a definition, in the index `name`."""
    return "nk", job_name


def jobs_in(state: str) -> list[Partition]:
    """The partitions of the index `state` that together hold the jobs in a state."""
    return [("tk", name) for name in _partitions(state, _JOB_PARTITIONS)]


def jobs_before(jid: int | None) -> Range:
    """The jobs with a smaller number than `jid` in the indexes `list`, `name` and `state`; None means all."""
    return "ls", sort_number(0), sort_number(_MAX_NUMBER if jid is None else max(jid - 1, 0))


def jobs_after(jid: int | None) -> Range:
    """The jobs with a larger number than `jid`; None means all."""
    return "ls", sort_number(0 if jid is None else min(jid + 1, _MAX_NUMBER)), sort_number(_MAX_NUMBER)


def job_state(job_id: str, state: str) -> dict[str, str]:
    """The state of a job, and the attribute that puts it into the index `state`."""
    return {"state": state, "tk": _spread(state, job_id, _JOB_PARTITIONS)}


def due(kind: str, at: int | None) -> dict[str, Any]:
    """The attributes that put a row into the index `due`; None takes it out."""
    return {"dk": None if at is None else kind, DUE_TIME: at}


def due_job(job_id: str, at: int | None) -> dict[str, Any]:
    """The same for a row of a job; the jobs are spread over partitions, each of which has its own limit."""
    return due(_spread(DUE_JOBS, job_id, _DUE_PARTITIONS), at)


def due_partitions() -> list[Partition]:
    """The partitions of the index `due` that together hold the rows of all jobs."""
    return [due_rows(name) for name in _partitions(DUE_JOBS, _DUE_PARTITIONS)]


def _spread(kind: str, text: str, count: int) -> str:
    return _partitions(kind, count)[zlib.crc32(text.encode()) % count]


def _partitions(kind: str, count: int) -> list[str]:
    """The names of the partitions of a kind; the first partition has rows that are older than the others."""
    return [kind, *(f"{kind}#{number}" for number in range(1, count))]


def due_rows(kind: str) -> Partition:
    return "dk", kind


def due_until(now: int) -> Range:
    """All times up to `now`, those before 1970 included."""
    return DUE_TIME, -_MAX_TIME, now


def listed_rows(
    table: Table,
    partitions: Sequence[Partition],
    index: str,
    *,
    limit: int,
    between: Range | None = None,
    newest_first: bool = False,
    start: Item | None = None,
    only: Sequence[str] = (),
) -> Iterator[Item]:
    """The rows of partitions of an index in the order of `ls`, read about `limit` at a time.

    An index lags behind the rows: a row that has left its partition since is omitted.
    """
    share = limit if len(partitions) == 1 else limit // len(partitions) + 2
    entries = merge(
        *(
            table.query(
                partition, index=index, between=between, newest_first=newest_first, limit=share, start=start
            )
            for partition in partitions
        ),
        key=lambda entry: str(entry[LIST_SORT]),
        reverse=newest_first,
    )
    place = partitions[0][0]
    while chunk := list(islice(entries, min(limit, _CHUNK))):
        wanted = (*only, *keys.KEY, place) if only else ()
        rows = table.batch_get([keys.key_of(entry) for entry in chunk], only=wanted)
        by_key = {tuple(keys.key_of(row).values()): row for row in rows}
        for entry in chunk:
            row = by_key.get(tuple(keys.key_of(entry).values()))
            if row and row.get(place) == entry[place]:
                yield row
