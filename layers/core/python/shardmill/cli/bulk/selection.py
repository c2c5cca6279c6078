"""Which Jobs a command is for: the one named, or all that fit a filter, and those downstream of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from shardmill.cli import output
from shardmill.cli.options import Json, OfJob, Token, Url
from shardmill.cli.parsing import Moment, moment
from shardmill.model.states import JobState

if TYPE_CHECKING:
    from shardmill.client import Client
    from shardmill.model.definition.fields import JobGraph
    from shardmill.model.job import Job

FILTER = "at least one of --job, --state, --since and --until"

OneJob = Annotated[
    str | None, typer.Argument(metavar="JOB", show_default=False, help="The name of the definition.")
]
OneTrigger = Annotated[
    str | None, typer.Argument(metavar="TRIGGER", show_default=False, help="The trigger of the run.")
]
States = Annotated[
    list[JobState] | None,
    typer.Option(
        "--state",
        metavar="STATE",
        case_sensitive=False,
        show_default=False,
        help="All Jobs in this state, such as RUNNING; repeatable.",
    ),
]
Since = Annotated[
    Moment | None,
    typer.Option(
        "--since",
        metavar="TIME",
        parser=moment,
        show_default=False,
        help="All Jobs whose dataTime, else the time they were submitted at, is this or later.",
    ),
]
Until = Annotated[
    Moment | None,
    typer.Option(
        "--until",
        metavar="TIME",
        parser=moment,
        show_default=False,
        help="The end, which is not included; a date is its 00:00 UTC.",
    ),
]
Downstream = Annotated[
    bool,
    typer.Option(
        "--downstream", help="Also the Jobs with the same dataTime whose definitions depend on theirs."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="List the Jobs, and do nothing to them.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """Its fields are options of every command that is for one Job or for many."""

    job_name: OneJob = None
    trigger: OneTrigger = None
    of_job: OfJob = None
    states: States = None
    since: Since = None
    until: Until = None
    downstream: Downstream = False
    dry_run: DryRun = False
    yes: Yes = False
    url: Url = None
    token: Token = None
    as_json: Json = False

    @property
    def filtered(self) -> bool:
        return any(each is not None for each in (self.of_job, self.since, self.until)) or bool(self.states)

    @property
    def is_one(self) -> bool:
        """Whether it is one Job for certain, so that nothing has to be looked for."""
        return not (self.filtered or self.downstream or self.dry_run)

    def check(self) -> None:
        """A filter, or both names; a command without either would be for every Job there is."""
        named = [each for each in (self.job_name, self.trigger) if each is not None]
        if len(named) != (0 if self.filtered else 2):
            raise typer.BadParameter(f"give either JOB and TRIGGER, or {FILTER}")
        if self.of_job is not None:
            from shardmill.client.requests import word

            word(self.of_job, "jobName")  # an empty one would be asked for as if there were none
        if self.since and self.until and _time(self.until) <= _time(self.since):
            raise typer.BadParameter("must be after --since; it is not included itself", param_hint="--until")

    def fits(self, job: Job) -> bool:
        time = job.data_time or job.create_time
        return (not self.since or time >= _time(self.since)) and (not self.until or time < _time(self.until))


def chosen(client: Client, choice: Choice, usual: Collection[JobState], oldest_first: bool) -> list[Job]:
    """The Jobs by their age, then those downstream; `usual`: in these states, where --state says nothing."""
    if choice.job_name is not None and choice.trigger is not None:
        found = [client.job(choice.job_name, choice.trigger)]
    else:
        found = [job for job in _listed(client, choice.of_job, choice.states or usual) if choice.fits(job)]
    found.sort(key=lambda job: job.jid, reverse=not oldest_first)
    if choice.downstream:
        found += _downstream(client, found, usual)
    once: dict[tuple[str, str], Job] = {}
    for job in found:  # one that changes its state meanwhile may be listed twice
        once.setdefault((job.job_name, job.trigger), job)
    return list(once.values())


def below(graph: JobGraph, name: str) -> list[str]:
    """The definitions that depend on another, directly or not, the nearest first."""
    children: dict[str, list[str]] = {}
    for edge in graph.edges:
        children.setdefault(edge.parent, []).append(edge.child)
    found = [name]
    known = {name}
    for upper in found:
        new = [child for child in children.get(upper, ()) if child not in known]
        found += new
        known.update(new)
    return found[1:]


def _listed(client: Client, job_name: str | None, states: Collection[JobState]) -> list[Job]:
    """Asked for by state, unless that would read the Jobs of one definition several times over."""
    asked: Iterable[JobState | None] = [None] if job_name and len(states) > 1 else states
    return [job for state in asked for job in client.jobs(job_name, state) if job.state in states]


def _downstream(client: Client, jobs: Collection[Job], usual: Collection[JobState]) -> Iterator[Job]:
    """Found by their dataTime; a Job that has none has nothing downstream."""
    times: dict[str, set[datetime]] = {}
    for job in jobs:
        if job.data_time:
            times.setdefault(job.job_name, set()).add(job.data_time)
    timeless = sum(job.data_time is None for job in jobs)
    if timeless:
        output.message(f"{output.many(timeless, 'Job')} without a dataTime: nothing is downstream of that")
    if not times:
        return
    graph = client.job_graph()
    wanted: dict[str, set[datetime]] = {}
    for upper, own in times.items():
        for name in below(graph, upper):
            wanted.setdefault(name, set()).update(own)
    for name, any_of in wanted.items():
        yield from (job for job in _listed(client, name, usual) if job.data_time in any_of)


def _time(moment: Moment) -> datetime:
    return moment.begins("UTC")
