"""dependencies, and what `job` shows of them"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from shardmill.cli import output
from shardmill.cli.options import JobName, Json, Token, Trigger, Url

if TYPE_CHECKING:
    from shardmill.client import Client
    from shardmill.model.job import DependencyStatus, Job

SHOWN_RUNS = 20
_COLUMNS: dict[str, Callable[[DependencyStatus], object]] = {
    "PARENT": lambda run: run.pre_job,
    "TRIGGER": lambda run: run.pre_trigger,
    "DATA TIME": lambda run: run.data_time,
    "STATE": lambda run: run.pre_state or "not there yet",
    "STRATEGY": lambda run: run.strategy,
}


def dependencies(
    job_name: JobName, trigger: Trigger, url: Url = None, token: Token = None, as_json: Json = False
) -> None:
    """List the runs of other jobs that a Job waits for.

    Or waited for. One is done when it is SUCCESS; how many have to be says the strategy.

    \b
    Examples:
      shardmill dependencies balance-report 20200121
      shardmill dependencies balance-report 20200121 --json | jq '.[] | select(.preStatus == 0)'
    """
    from shardmill.client import Client

    with Client(url, token) as client:
        output.listing(client.dependencies(job_name, trigger), _COLUMNS, as_json)


def show_parents(client: Client, job: Job) -> None:
    """The runs that a waiting Job waits for, those first that are not done."""
    from shardmill.client import ShardmillError

    try:
        found = client.dependencies(job.job_name, job.trigger)
    except ShardmillError as error:
        output.message(f"which runs it waits for cannot be read: {error.detail}")
        return
    if not found:
        return
    output.line()
    output.listing(sorted(found, key=lambda run: run.pre_status)[:SHOWN_RUNS], _COLUMNS, as_json=False)
    if len(found) > SHOWN_RUNS:
        more = len(found) - SHOWN_RUNS
        output.line(f"… and {more} more: shardmill dependencies {job.job_name} {job.trigger}")
