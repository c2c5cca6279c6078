"""The description of a command that applies to one job or to many."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shardmill.cli import output
from shardmill.model.states import JobState

if TYPE_CHECKING:
    from shardmill.client.client import Client
    from shardmill.client.control import Actions
    from shardmill.model.job import Job


def show_state(job: Job, as_json: bool, suffix: str = "") -> None:
    """Print the job as JSON, or its name and state on one line."""
    if as_json:
        output.json_document(job)
    else:
        output.line(f"{job.job_name} {job.trigger} {job.state.value}{suffix}")


def _show_state(_client: Client, job: Job, as_json: bool) -> None:
    show_state(job, as_json)


@dataclass(frozen=True, kw_only=True, slots=True)
class JobCommand:
    """The action of a command on each selected job.

    `act`: performs the action with a client, and returns the updated job, or None if the job was deleted.
    With `ActionRequests` it returns the request, for --dry-run.
    `default_states`: the states that a filter without --state selects.
    `step`: the step that the action is limited to, if any.
    `show`: prints the result for a single job.
    `single_only`: an option that is in use and that only works for a single job.
    """

    verb: str
    default_states: Collection[JobState]
    act: Callable[[Actions[Any], str, str], Any]
    step: str | None = None
    oldest_first: bool = False
    show: Callable[[Client, Job, bool], None] = _show_state
    single_only: str | None = None
