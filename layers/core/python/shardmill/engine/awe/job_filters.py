"""Which jobs a list of the AWE protocol shows: states, dates, and fields of jobs and of their tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from shardmill.engine.awe.documents import info_document, is_registered
from shardmill.model.awe import states
from shardmill.model.awe.times import awe_time
from shardmill.model.states import JobState
from shardmill.store.rows import JobRow

ACTIVE = (JobState.INIT, JobState.WAITING, JobState.QUEUED, JobState.RUNNING)
FAILED = (JobState.SUSPENDED, JobState.FAILED, JobState.KILLED)
REGISTERED = (*ACTIVE, JobState.SUSPENDED)
READ_FIELDS = (
    *("id", "jid", "job_name", "trigger", "version", "state", "request_hash", "create_time", "update_time"),
    *("info", "priority", "app_name", "submit_user", "started_time", "completed_time", "notes"),
    *("last_failed", "groups", "delete_at"),
)
"""The attributes of a job's row that filters and orders look at."""
_OF_DOCUMENT = frozenset(("tasks", "remaintasks", "lastfailed", "notes"))
"""Fields for which the tasks of a job are read."""


@dataclass(frozen=True)
class JobFilter:
    """What a list shows. `fields`: names such as `state` or `info.user` with the values that match."""

    states: tuple[JobState, ...] = ()
    registered: bool = False
    fields: Mapping[str, frozenset[str]] = field(default_factory=dict)
    start: int | None = None
    end: int | None = None

    def matches(self, job: JobRow) -> bool:
        """Whether a job matches, as far as its row shows."""
        if self.registered and not is_registered(job):
            return False
        if self.start is not None and job.create_time < self.start:
            return False
        if self.end is not None and job.create_time > self.end:
            return False
        return all(
            str(value_of(job, name)) in wanted
            for name, wanted in self.fields.items()
            if name not in self.document_fields
        )

    def matches_document(self, document: Mapping[str, Any]) -> bool:
        """Whether the document of a job matches. In a list, any entry may: another one for each field."""
        return all(
            any(text in self.fields[name] for text in values_at(document, name.split(".")))
            for name in self.document_fields
        )

    @cached_property
    def document_fields(self) -> frozenset[str]:
        return frozenset(name for name in self.fields if name.partition(".")[0] in _OF_DOCUMENT)

    @property
    def listed_states(self) -> frozenset[JobState] | None:
        """The states that a job can have to match; None means any."""
        sets = [frozenset(self.states)] if self.states else []
        if self.registered:
            sets.append(frozenset(REGISTERED))
        if "state" in self.fields:
            words = self.fields["state"]
            sets.append(frozenset(state for word in words for state in states.job_states(word)))
        return frozenset.intersection(*sets) if sets else None

    @property
    def by_state_alone(self) -> bool:
        return self.start is None and self.end is None and not self.fields.keys() - {"state"}


def values_at(value: Any, path: Sequence[str]) -> Iterator[str]:
    """The values at a path of a document as texts; of a list, those of each entry, or of a numbered one."""
    if isinstance(value, list):
        if path and path[0].isdecimal() and len(path[0]) < 6:
            value, path = value[int(path[0]) : int(path[0]) + 1], path[1:]
        for each in value:
            yield from values_at(each, path)
    elif not path:
        yield "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    elif isinstance(value, dict) and path[0] in value:
        yield from values_at(value[path[0]], path[1:])


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
    "expiration": lambda job: awe_time(job.delete_at),
    "definition": lambda job: job.job_name,
    "trigger": lambda job: job.trigger,
    "info.priority": lambda job: job.priority,
}
