"""dependencies: the jobs that a job waits for; also shown by `shardmill job`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from shardmill.cli import output
from shardmill.cli.options import JobName, Json, Token, Trigger, Url
from shardmill.cli.watch import Watch, show_list

if TYPE_CHECKING:
    from shardmill.client.client import Client
    from shardmill.model.job import DependencyStatus, Job

SHOWN_DEPENDENCIES = 20
_COLUMNS: dict[str, Callable[[DependencyStatus], object]] = {
    "PARENT": lambda dependency: dependency.pre_job,
    "TRIGGER": lambda dependency: dependency.pre_trigger,
    "DATA TIME": lambda dependency: dependency.data_time,
    "STATE": lambda dependency: dependency.pre_state or "not submitted",
    "STRATEGY": lambda dependency: dependency.strategy,
}


def dependencies(
    job_name: JobName,
    trigger: Trigger,
    watch: Watch = False,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """List the jobs that a job depends on.

    A dependency is met when its parent job is SUCCESS. The strategy determines how many parent jobs
    must succeed.

    \b
    Examples:
      shardmill dependencies balance-report 20200121
      shardmill dependencies balance-report 20200121 --watch
      shardmill dependencies balance-report 20200121 --json | jq '.[] | select(.preStatus == 0)'
    """
    from shardmill.client.client import Client

    with Client(url, token) as client:
        show_list(lambda: client.dependencies(job_name, trigger), _COLUMNS, as_json, watch)


def show_dependencies(client: Client, job: Job) -> None:
    """Print the dependencies of a waiting job, unmet ones first."""
    from shardmill.client.errors import ShardmillError

    try:
        found = client.dependencies(job.job_name, job.trigger)
    except ShardmillError as error:
        output.message(f"cannot read the dependencies of the job: {error.detail}")
        return
    if not found:
        return
    output.line()
    unmet_first = sorted(found, key=lambda dependency: dependency.pre_status)
    output.listing(unmet_first[:SHOWN_DEPENDENCIES], _COLUMNS, as_json=False)
    hidden = len(found) - SHOWN_DEPENDENCIES
    if hidden > 0:
        output.line(
            f"… and {hidden} more; to list all, run: shardmill dependencies {job.job_name} {job.trigger}"
        )
