"""rerun, recompute: run parts of one job again, or of all jobs that match a filter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from shardmill.cli import complete, output
from shardmill.cli.bulk.job_command import JobCommand, show_state
from shardmill.cli.bulk.run import run_job_command
from shardmill.cli.bulk.selection import Selection
from shardmill.cli.options import (
    Downstream,
    DryRun,
    JobFilter,
    Json,
    OptionalJobName,
    OptionalTrigger,
    Param,
    Reason,
    Since,
    StateFilter,
    Timeout,
    Token,
    Until,
    Url,
    Wait,
    Yes,
)
from shardmill.cli.parsing import parse_indexes, parse_params
from shardmill.cli.wait import check_timeout, wait_for_job
from shardmill.model.states import JobState

if TYPE_CHECKING:
    from shardmill.client.client import Client
    from shardmill.client.control import Actions
    from shardmill.model.job import Job

Everything = Annotated[bool, typer.Option("--all", help="Rerun all tasks, not only failed ones.")]
Steps = Annotated[
    list[str] | None,
    typer.Option(
        "--step",
        metavar="STEP",
        show_default=False,
        help="Rerun this step, and the steps downstream of it that have not succeeded. Repeatable.",
        autocompletion=complete.steps,
    ),
]
Shards = Annotated[
    str | None,
    typer.Option(
        "--shards", metavar="3,7-9", show_default=False, help="Rerun these task indexes of --step only."
    ),
]
WithDependents = Annotated[
    bool,
    typer.Option(
        "--downstream",
        help="Also rerun the dependent jobs with the same data time, each after its parents.",
    ),
]
OptionalStepName = Annotated[
    str | None,
    typer.Argument(
        metavar="STEP", show_default=False, help="Name of the step.", autocompletion=complete.steps
    ),
]


def rerun(
    job_name: OptionalJobName = None,
    trigger: OptionalTrigger = None,
    everything: Everything = False,
    steps: Steps = None,
    shards: Shards = None,
    param: Param = None,
    wait: Wait = False,
    timeout: Timeout = None,
    reason: Reason = "",
    of_job: JobFilter = None,
    states: StateFilter = None,
    since: Since = None,
    until: Until = None,
    downstream: WithDependents = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Rerun the failed tasks of a job, or other parts of it.

    Starts a new run of the job that keeps all other results. --param changes a parameter from this run on.
    With a filter, reruns all matching jobs; without --state, these are FAILED jobs, and with --all or --step
    also SUCCESS jobs. Select KILLED or SUSPENDED jobs with --state. With --downstream, SUCCESS jobs are
    selected too, and rerun as a whole.

    \b
    Examples:
      shardmill rerun balance-report 20200121 --wait
      shardmill rerun balance-report 20200121 --step generate_files --shards 3,7-9
      shardmill rerun balance-report 20200121 --param reportDate=2020-01-22
      shardmill rerun balance-report 20200121 --downstream --dry-run
      shardmill rerun --job balance-report --since 2026-01-01 --reason "rates corrected" --yes
    """
    check_timeout(wait, timeout)
    if everything and steps:
        raise typer.BadParameter("cannot be combined with --step", param_hint="--all")
    if shards is not None and len(steps or ()) != 1:
        raise typer.BadParameter("requires exactly one --step", param_hint="--shards")
    indexes = [] if shards is None else parse_indexes(shards)
    params = parse_params(param or ())

    def act(client: Actions[Any], job_name: str, trigger: str) -> Any:
        return client.rerun(
            job_name,
            trigger,
            everything=everything,
            steps=steps or (),
            shards=indexes,
            dependents=downstream,
            params=params,
            reason=reason,
        )

    command = JobCommand(
        verb="rerun",
        default_states=(JobState.FAILED, *([JobState.SUCCESS] if everything or steps or downstream else [])),
        act=act,
        step=steps[0] if steps else None,
        oldest_first=True,
        show=lambda client, job, as_json: _show_new_run(client, job, wait, timeout, as_json),
        single_only="--wait" if wait else None,
    )
    selection = Selection(job_name, trigger, of_job, states, since, until)
    run_job_command(command, selection, dry_run=dry_run, yes=yes, url=url, token=token, as_json=as_json)


def recompute(
    job_name: OptionalJobName = None,
    trigger: OptionalTrigger = None,
    step_name: OptionalStepName = None,
    wait: Wait = False,
    timeout: Timeout = None,
    reason: Reason = "",
    of_job: JobFilter = None,
    states: StateFilter = None,
    since: Since = None,
    until: Until = None,
    downstream: Downstream = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Rerun a step and all steps downstream of it.

    With a filter, applies to all matching jobs; without --state, these are FAILED and SUCCESS jobs.

    \b
    Examples:
      shardmill recompute balance-report 20200121 generate_files
      shardmill recompute balance-report 20200121 merge_files --reason "new layout" --wait
      shardmill recompute merge_files --job balance-report --since 2026-01-01 --dry-run
    """
    selection = Selection(job_name, trigger, of_job, states, since, until, downstream)
    selection, step = selection.take_argument(step_name, "STEP", str)
    check_timeout(wait, timeout)
    command = JobCommand(
        verb="recompute",
        default_states=(JobState.FAILED, JobState.SUCCESS),
        act=lambda client, job_name, trigger: client.recompute(job_name, trigger, step, reason),
        step=step,
        oldest_first=True,
        show=lambda client, job, as_json: _show_new_run(client, job, wait, timeout, as_json),
        single_only="--wait" if wait else None,
    )
    run_job_command(command, selection, dry_run=dry_run, yes=yes, url=url, token=token, as_json=as_json)


def _show_new_run(client: Client, job: Job, wait: bool, timeout: float | None, as_json: bool) -> None:
    """Show the new run of a job immediately, or, with `wait`, once it has ended."""
    if wait:
        output.message(f"started run {job.run} of {job.job_name}/{job.trigger}")
        wait_for_job(client, job.job_name, job.trigger, timeout, as_json)
    show_state(job, as_json, f" run {job.run}")
