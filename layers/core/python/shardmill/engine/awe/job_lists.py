"""Lists of jobs: filters, order and paging, and the position of a job in the queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Any, NamedTuple

from shardmill.engine.access.visible import Visible
from shardmill.engine.awe.documents import info_document, is_registered
from shardmill.engine.errors import BadRequest
from shardmill.engine.mill import Mill
from shardmill.model.awe import states
from shardmill.model.awe.times import awe_time
from shardmill.model.states import JobState
from shardmill.store.rows import JobRow

MAX_SCANNED = 2_000
"""The newest jobs that a list reads, if it filters or orders them by their fields."""
MAX_COUNTED = 100_000
"""How many jobs a list by state, in the order of submission, counts."""
SUBMITTED = "info.submittime"
ACTIVE = (JobState.INIT, JobState.WAITING, JobState.QUEUED, JobState.RUNNING)
FAILED = (JobState.SUSPENDED, JobState.FAILED, JobState.KILLED)
REGISTERED = (*ACTIVE, JobState.SUSPENDED)
_PAGE = 500


@dataclass(frozen=True, slots=True)
class JobFilter:
    """The filters of a list. `fields`: names such as `state` or `info.user` with the values that match."""

    states: tuple[JobState, ...] = ()
    registered: bool = False
    fields: Mapping[str, frozenset[str]] = field(default_factory=dict)
    start: int | None = None
    end: int | None = None

    def matches(self, job: JobRow) -> bool:
        if self.registered and not is_registered(job):
            return False
        if self.start is not None and job.create_time < self.start:
            return False
        if self.end is not None and job.create_time > self.end:
            return False
        return all(str(value_of(job, name)) in wanted for name, wanted in self.fields.items())

    @property
    def by_state(self) -> frozenset[JobState] | None:
        """The states to list if states alone decide; empty means all. None if other fields decide, too."""
        if self.start is not None or self.end is not None or self.fields.keys() - {"state"}:
            return None
        sets = [frozenset(self.states)] if self.states else []
        if self.registered:
            sets.append(frozenset(REGISTERED))
        if "state" in self.fields:
            sets.append(
                frozenset(state for word in self.fields["state"] for state in states.job_states(word))
            )
        chosen = frozenset.intersection(*sets) if sets else frozenset()
        return None if sets and not chosen else chosen


class JobPage(NamedTuple):
    """A part of a list. `total`: how many jobs match; if `truncated`, only among the jobs that were read."""

    jobs: list[JobRow]
    total: int
    truncated: int = 0


def list_jobs(
    mill: Mill,
    wanted: JobFilter,
    visible: Visible,
    *,
    order: str,
    descending: bool,
    offset: int,
    limit: int,
) -> JobPage:
    """A part of the jobs that match, in order; if there are very many, only the newest are read."""
    chosen = wanted.by_state
    if visible.all and order == SUBMITTED and chosen is not None:
        names = sorted(state.value for state in chosen)
        rows, total = mill.awe_jobs.page(
            names, newest_first=descending, offset=offset, limit=limit, most=MAX_COUNTED
        )
        return JobPage(rows, total, MAX_COUNTED if total == MAX_COUNTED else 0)
    read = list(_rows(mill, wanted))
    found = [job for job in read if visible.job(job) and wanted.matches(job)]
    found.sort(key=lambda job: _sort_key(job, order), reverse=descending)
    return JobPage(found[offset : offset + limit], len(found), MAX_SCANNED if len(read) >= MAX_SCANNED else 0)


def _rows(mill: Mill, wanted: JobFilter) -> Iterator[JobRow]:
    words = wanted.fields.get("state", frozenset())
    chosen = set(wanted.states) or {state for word in words for state in states.job_states(word)}
    for state in sorted(chosen) if chosen else [None]:
        rows = mill.jobs.page(job_name=None, state=state.value if state else None, before=None, limit=_PAGE)
        yield from (job for job in islice(rows, MAX_SCANNED) if job.state is not JobState.DELETED)


def value_of(job: JobRow, name: str) -> Any:
    """The value of a field of a job's document, such as `info.user`; empty if there is none."""
    if name in _FIELDS:
        return _FIELDS[name](job)
    place, _, rest = name.partition(".")
    found: Any = info_document(job, []) if place == "info" else {}
    for part in rest.split(".") if rest else ():
        found = found.get(part, "") if isinstance(found, dict) else ""
    return "" if isinstance(found, dict) else found


_FIELDS: dict[str, Callable[[JobRow], Any]] = {
    "id": lambda job: job.id,
    "jid": lambda job: job.jid,
    "state": lambda job: states.JOB[job.state],
    "updatetime": lambda job: awe_time(job.update_time),
    "lastfailed": lambda job: job.last_failed,
    "notes": lambda job: job.notes,
    "registered": lambda job: str(is_registered(job)).lower(),
    "info.priority": lambda job: job.priority,
}


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
    """The place of a job in the queue, from 1. `truncated`: only this many jobs of each state were
    compared."""

    place: int
    truncated: int = 0


def position(mill: Mill, job: JobRow) -> Position:
    """The place of a job in the queue: by priority, then by the time of its submission."""
    if job.state not in ACTIVE:
        raise BadRequest(f"the job is not in the queue; its state is {states.JOB[job.state]}")
    place, read = 1, Counter[JobState]()
    for each in _rows(mill, JobFilter(states=ACTIVE)):
        read[each.state] += 1
        place += (-each.priority, each.jid) < (-job.priority, job.jid)
    return Position(place, MAX_SCANNED if max(read.values(), default=0) >= MAX_SCANNED else 0)
