"""Lists of jobs: filters, order and paging, and the position of a job in the queue.

A request reads a bounded number of jobs. If there are more, its answer has a cursor, with which the next
request continues, so that lists of any length are complete.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Any, NamedTuple

from shardmill.engine.access.visible import Visible
from shardmill.engine.awe.documents import job_document
from shardmill.engine.awe.job_filters import ACTIVE, READ_FIELDS, JobFilter, value_of
from shardmill.engine.errors import BadRequest
from shardmill.engine.mill import Mill
from shardmill.model.awe import states
from shardmill.model.states import JobState
from shardmill.store.rows import JobRow

MAX_SCANNED = 10_000
"""How many jobs one request reads to filter or order them, or to find a position."""
TASKS_COST = 20
"""Reading the tasks of a job counts as reading so many jobs, and one more for each task."""
MAX_COUNTED = 100_000
"""How many jobs a list by state, in the order of submission, counts."""
SUBMITTED = "info.submittime"
CLOCK_SKEW_MS = 3_600_000
"""The times of two jobs may be in another order than their numbers, by less than this."""
_PAGE = 1_000
_CURSOR = re.compile(r"([0-9]{1,12})-([0-9]{1,12})\Z")


class Cursor(NamedTuple):
    """Where a list continues: after the job with this number, and after so many that match."""

    jid: int
    seen: int

    def __str__(self) -> str:
        return f"{self.jid}-{self.seen}"


def parse_cursor(text: str) -> Cursor | None:
    if not text:
        return None
    found = _CURSOR.match(text)
    if not found:
        raise BadRequest("cursor must be the cursor of an earlier answer")
    return Cursor(int(found[1]), int(found[2]))


class JobPage(NamedTuple):
    """A part of a list.

    `total`: how many jobs match, as far as they were read. `rest`: where the jobs begin that were not read.
    `resumed`: it was continued by a cursor. `unordered`: how many jobs were read, if their order needs more.
    """

    jobs: list[JobRow]
    offset: int
    total: int
    rest: Cursor | None = None
    resumed: bool = False
    unordered: int = 0

    def after(self, shown: int) -> Cursor | None:
        """Where the next page begins, if so many jobs of this one were shown; None if an offset is enough."""
        if shown and self.offset + shown < self.total and (self.rest or self.resumed):
            return Cursor(self.jobs[shown - 1].jid, self.offset + shown)
        return self.rest


def list_jobs(
    mill: Mill,
    wanted: JobFilter,
    visible: Visible,
    *,
    order: str,
    descending: bool,
    offset: int,
    limit: int,
    cursor: Cursor | None = None,
) -> JobPage:
    """A part of the jobs that match, in order."""
    listed = wanted.listed_states
    if listed is not None and not listed:
        return JobPage([], offset, 0)
    names = sorted(state.value for state in listed or ())
    if order != SUBMITTED:
        return _ordered(mill, wanted, visible, names, order, descending, offset, limit)
    if visible.all and wanted.by_state_alone and not cursor:
        rows, total = mill.awe_jobs.page(
            names, newest_first=descending, offset=offset, limit=limit, most=MAX_COUNTED
        )
        last = Cursor(rows[-1].jid, offset + len(rows)) if rows and total == MAX_COUNTED else None
        return JobPage(rows, offset, total, last)
    return _scanned(mill, wanted, visible, names, descending, offset, limit, cursor)


def _scanned(
    mill: Mill,
    wanted: JobFilter,
    visible: Visible,
    names: list[str],
    descending: bool,
    offset: int,
    limit: int,
    cursor: Cursor | None,
) -> JobPage:
    """A page in the order of submission. Jobs behind it are counted, until the request has read enough."""
    jid, seen = cursor or (None, 0)
    offset = max(offset, seen)
    shown: list[str] = []
    scan = _Scan(mill, wanted, visible, names, descending, jid)
    for job in scan:
        seen += 1
        if offset < seen <= offset + limit:
            shown.append(job.id)
    rest = Cursor(scan.last, seen) if scan.interrupted else None
    return JobPage(_read(mill, shown), offset, seen, rest, resumed=cursor is not None)


def _ordered(
    mill: Mill,
    wanted: JobFilter,
    visible: Visible,
    names: list[str],
    order: str,
    descending: bool,
    offset: int,
    limit: int,
) -> JobPage:
    """A page in the order of a field, of the newest jobs."""
    scan = _Scan(mill, wanted, visible, names, True, None)
    found = sorted(((_sort_key(job, order), job.id) for job in scan), reverse=descending)
    shown = [job_id for _, job_id in found[offset : offset + limit]]
    return JobPage(_read(mill, shown), offset, len(found), unordered=MAX_SCANNED if scan.interrupted else 0)


def _read(mill: Mill, ids: list[str]) -> list[JobRow]:
    rows = mill.jobs.by_id(ids) if ids else {}
    return [rows[job_id] for job_id in ids if job_id in rows]


class _Scan:
    """The jobs that match, in the order of their numbers, until the request has read enough.

    Afterwards, `last` is the number of the last job that was read, and `interrupted` whether there are more.
    """

    def __init__(
        self,
        mill: Mill,
        wanted: JobFilter,
        visible: Visible,
        names: list[str],
        newest_first: bool,
        beyond: int | None,
    ) -> None:
        self._mill, self._wanted, self._visible = mill, wanted, visible
        self._newest_first = newest_first
        self._left = MAX_SCANNED
        self.last, self.interrupted = beyond or 0, False
        only = () if wanted.document_fields else READ_FIELDS
        self._rows = mill.awe_jobs.scan(
            names, newest_first=newest_first, beyond=beyond, most=_PAGE, only=only
        )

    def __iter__(self) -> Iterator[JobRow]:
        for job in self._rows:
            if self._is_past(job):
                return
            if self._left <= 0:
                self.interrupted = True
                return
            self._left -= 1
            self.last = job.jid
            if self._is_listed(job) and self._wanted.matches(job) and self._tasks_match(job):
                yield job

    def _is_listed(self, job: JobRow) -> bool:
        """Whether the caller may see a job; one that is being deleted is listed by its state only."""
        deleted = job.state is JobState.DELETED and self._wanted.listed_states is None
        return not deleted and self._visible.job(job)

    def _is_past(self, job: JobRow) -> bool:
        """Whether all further jobs are outside of the dates."""
        start, end = self._wanted.start, self._wanted.end
        if self._newest_first:
            return start is not None and job.create_time < start - CLOCK_SKEW_MS
        return end is not None and job.create_time > end + CLOCK_SKEW_MS

    def _tasks_match(self, job: JobRow) -> bool:
        if not self._wanted.document_fields:
            return True
        document = job_document(self._mill, job, "")
        self._left -= TASKS_COST + len(document["tasks"])
        return self._wanted.matches_document(document)


def _sort_key(job: JobRow, order: str) -> tuple[int, Any, int]:
    value = value_of(job, order)
    return (0, value, job.jid) if isinstance(value, int) else (1, str(value), job.jid)


def parse_date(text: str, name: str) -> int | None:
    """A date or time in milliseconds; None if it is empty."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text.replace(" ", "T").replace("Z", "+00:00"))
    except ValueError:
        raise BadRequest(f"{name} must be a date such as 2014-02-09, or a time; not {text[:64]!r}") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


class Position(NamedTuple):
    """The place of a job in the queue, from 1; if there is a `rest`, among the jobs before that only."""

    place: int
    rest: Cursor | None = None


def position(mill: Mill, job: JobRow, cursor: Cursor | None = None) -> Position:
    """The place of a job in the queue: by priority, then by the time of its submission."""
    if job.state not in ACTIVE:
        raise BadRequest(f"the job is not in the queue; its state is {states.JOB[job.state]}")
    jid, before = cursor or (None, 0)
    names = [state.value for state in ACTIVE]
    rows = mill.awe_jobs.scan(names, newest_first=False, beyond=jid, most=_PAGE, only=READ_FIELDS)
    for each in islice(rows, MAX_SCANNED):
        jid = each.jid
        before += (-each.priority, each.jid) < (-job.priority, job.jid)
    rest = Cursor(jid or 0, before) if next(rows, None) else None
    return Position(before + 1, rest)
