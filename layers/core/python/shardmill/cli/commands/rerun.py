"""rerun, recompute"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from shardmill.cli import output
from shardmill.cli.bulk.job_command import Order, for_jobs, tell
from shardmill.cli.options import Reason, StepName, Timeout, Wait
from shardmill.cli.parsing import indexes
from shardmill.cli.wait import await_job, check_timeout
from shardmill.model.states import JobState

if TYPE_CHECKING:
    from shardmill.client import Client
    from shardmill.model.job import Job

Everything = Annotated[bool, typer.Option("--all", help="All of it, not only what failed.")]
Steps = Annotated[
    list[str] | None,
    typer.Option(
        "--step",
        metavar="STEP",
        show_default=False,
        help="This step, and below it what has not succeeded; repeatable.",
    ),
]
Shards = Annotated[
    str | None,
    typer.Option(
        "--shards", metavar="3,7-9", show_default=False, help="Only these tasks of --step, by their indexes."
    ),
]


@for_jobs
def rerun(
    everything: Everything = False,
    steps: Steps = None,
    shards: Shards = None,
    wait: Wait = False,
    timeout: Timeout = None,
    reason: Reason = "",
) -> Order:
    """Run what failed of a Job again, or other parts of it, or all Jobs that a filter chooses.

    That is a new run of it, in which the rest is kept. A filter without --state is for Jobs that FAILED, with
    --all or --step also for those with SUCCESS; those that somebody killed or suspended have to be asked for.

    \b
    Examples:
      shardmill rerun balance-report 20200121 --wait
      shardmill rerun balance-report 20200121 --step generate_files --shards 3,7-9
      shardmill rerun --job balance-report --since 2026-01-01 --reason "rates are mended" --yes
    """
    check_timeout(wait, timeout)
    if everything and steps:
        raise typer.BadParameter("is everything; leave out --step", param_hint="--all")
    if shards is not None and len(steps or ()) != 1:
        raise typer.BadParameter("needs the one --step that they are of", param_hint="--shards")
    ranks = [] if shards is None else indexes(shards)

    def act(client: Client, job_name: str, trigger: str) -> Job:
        return client.rerun(
            job_name, trigger, everything=everything, steps=steps or (), shards=ranks, reason=reason
        )

    return Order(
        verb="rerun",
        usual=(JobState.FAILED, *([JobState.SUCCESS] if everything or steps else [])),
        act=act,
        step=steps[0] if steps else None,
        oldest_first=True,
        tell=lambda client, job, as_json: _tell_again(client, job, wait, timeout, as_json),
        only_one="--wait" if wait else None,
    )


@for_jobs
def recompute(step_name: StepName, wait: Wait = False, timeout: Timeout = None, reason: Reason = "") -> Order:
    """Run a step again and everything downstream of it, in a Job or in all that a filter chooses.

    A filter without --state is for Jobs that FAILED or ended with SUCCESS.

    \b
    Examples:
      shardmill recompute balance-report 20200121 generate_files
      shardmill recompute balance-report 20200121 merge_files --reason "new layout" --wait
      shardmill recompute merge_files --job balance-report --since 2026-01-01 --dry-run
    """
    check_timeout(wait, timeout)
    return Order(
        verb="recompute",
        usual=(JobState.FAILED, JobState.SUCCESS),
        act=lambda client, job_name, trigger: client.recompute(job_name, trigger, step_name, reason),
        step=step_name,
        oldest_first=True,
        tell=lambda client, job, as_json: _tell_again(client, job, wait, timeout, as_json),
        only_one="--wait" if wait else None,
    )


def _tell_again(client: Client, job: Job, wait: bool, timeout: float | None, as_json: bool) -> None:
    """Show the new run of a Job, at once or when it has ended."""
    if wait:
        output.message(f"run {job.run} of {job.job_name}/{job.trigger} has begun")
        await_job(client, job.job_name, job.trigger, timeout, as_json)
    tell(job, as_json, f" run {job.run}")
