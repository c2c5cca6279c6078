"""Select the jobs that a command applies to: the named one, or all that match a filter."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

import typer

from shardmill.cli import output
from shardmill.cli.parsing import Moment
from shardmill.model.states import JobState

if TYPE_CHECKING:
    from shardmill.client.client import Client
    from shardmill.model.definition.answers import JobGraph
    from shardmill.model.job import Job

T = TypeVar("T")

FILTER = "at least one of --job, --state, --since and --until"


@dataclass(frozen=True, slots=True)
class Selection:
    """The arguments and options that select jobs."""

    job_name: str | None = None
    trigger: str | None = None
    of_job: str | None = None
    states: list[JobState] | None = None
    since: Moment | None = None
    until: Moment | None = None
    downstream: bool = False

    @property
    def filtered(self) -> bool:
        return any(each is not None for each in (self.of_job, self.since, self.until)) or bool(self.states)

    @property
    def single(self) -> bool:
        """Whether exactly one job is selected, by its name and trigger."""
        return not (self.filtered or self.downstream)

    def take_argument(self, value: T | None, metavar: str, parse: Callable[[str], T]) -> tuple[Selection, T]:
        """Return the selection without the command's own last argument, and the value of that argument.

        Next to a filter the argument stands alone, so that typer assigns it to JOB.
        """
        if self.filtered and self.job_name is not None and self.trigger is None:
            return replace(self, job_name=None), parse(self.job_name)
        if self.filtered or value is None:
            raise typer.BadParameter(f"give either JOB, TRIGGER and {metavar}, or {metavar} and {FILTER}")
        return self, value

    def check(self) -> None:
        """Require a filter or a full name, so that no command applies to all jobs by accident."""
        named = [each for each in (self.job_name, self.trigger) if each is not None]
        if len(named) != (0 if self.filtered else 2):
            raise typer.BadParameter(f"give either JOB and TRIGGER, or {FILTER}")
        if self.of_job is not None:
            from shardmill.client.calls import path_segment

            path_segment(self.of_job, "jobName")  # an empty name would select the jobs of all definitions
        if self.since and self.until and _in_utc(self.until) <= _in_utc(self.since):
            raise typer.BadParameter("must be after --since; it is exclusive", param_hint="--until")

    def in_period(self, job: Job) -> bool:
        time = job.data_time or job.create_time
        return (not self.since or time >= _in_utc(self.since)) and (
            not self.until or time < _in_utc(self.until)
        )


def select_jobs(
    client: Client, selection: Selection, default_states: Collection[JobState], oldest_first: bool
) -> list[Job]:
    """Return the selected jobs by age, followed by the downstream ones.

    `default_states` apply if the selection has no --state.
    """
    if selection.job_name is not None and selection.trigger is not None:
        found = [client.job(selection.job_name, selection.trigger)]
    else:
        listed = _list_jobs(client, selection.of_job, selection.states or default_states)
        found = [job for job in listed if selection.in_period(job)]
    found.sort(key=lambda job: job.jid, reverse=not oldest_first)
    if selection.downstream:
        found += _downstream_jobs(client, found, default_states)
    unique: dict[tuple[str, str], Job] = {}
    for job in found:  # a job whose state changes between two requests can be listed twice
        unique.setdefault((job.job_name, job.trigger), job)
    return list(unique.values())


def dependents(graph: JobGraph, name: str) -> list[str]:
    """Return the definitions that depend on `name`, directly or indirectly, nearest first."""
    children: dict[str, list[str]] = {}
    for edge in graph.edges:
        children.setdefault(edge.parent, []).append(edge.child)
    found = [name]
    known = {name}
    for parent in found:
        new = [child for child in children.get(parent, ()) if child not in known]
        found += new
        known.update(new)
    return found[1:]


def _list_jobs(client: Client, job_name: str | None, states: Collection[JobState]) -> list[Job]:
    """Query by state, except that several states of one definition are read with a single query."""
    queries: Iterable[JobState | None] = [None] if job_name and len(states) > 1 else states
    return [job for state in queries for job in client.jobs(job_name, state) if job.state in states]


def _downstream_jobs(client: Client, jobs: Collection[Job], states: Collection[JobState]) -> Iterator[Job]:
    """Find jobs of dependent definitions by their data time."""
    times: dict[str, set[datetime]] = {}
    for job in jobs:
        if job.data_time:
            times.setdefault(job.job_name, set()).add(job.data_time)
    without_time = sum(job.data_time is None for job in jobs)
    if without_time:
        output.message(
            f"{output.plural(without_time, 'job')} without a data time: --downstream does not apply"
        )
    if not times:
        return
    graph = client.job_graph()
    times_by_dependent: dict[str, set[datetime]] = {}
    for parent, own in times.items():
        for name in dependents(graph, parent):
            times_by_dependent.setdefault(name, set()).update(own)
    for name, wanted in times_by_dependent.items():
        yield from (job for job in _list_jobs(client, name, states) if job.data_time in wanted)


def _in_utc(moment: Moment) -> datetime:
    return moment.to_utc("UTC")
