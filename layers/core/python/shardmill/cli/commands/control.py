"""suspend, resume, kill, force, delete: control one job, or all jobs that match a filter."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from shardmill.cli.bulk.job_command import JobCommand, show_state
from shardmill.cli.bulk.run import run_job_command
from shardmill.cli.bulk.selection import Selection
from shardmill.cli.options import (
    Downstream,
    DryRun,
    JobFilter,
    Json,
    OneStep,
    OptionalJobName,
    OptionalTrigger,
    Reason,
    Since,
    StateFilter,
    Token,
    Until,
    Url,
    Yes,
)
from shardmill.model.states import JobState

if TYPE_CHECKING:
    from shardmill.client.client import Client
    from shardmill.model.job import Job


class ForcedState(StrEnum):
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"


def _parse_forced_state(text: str) -> ForcedState:
    try:
        return ForcedState(text.upper())
    except ValueError:
        raise typer.BadParameter(f"{text!r} must be one of {', '.join(ForcedState)}") from None


LetFinish = Annotated[bool, typer.Option("--let-finish", help="Let running tasks finish.")]
WithoutDependencies = Annotated[
    bool, typer.Option("--without-dependencies", help="Do not wait for other jobs.")
]
OneIndex = Annotated[
    int | None,
    typer.Option(
        "--index",
        metavar="N",
        min=0,
        show_default=False,
        help="Apply to the task of --step with this index only.",
    ),
]
EndState = Annotated[
    ForcedState | None,
    typer.Argument(
        metavar="SUCCESS|FAILED", parser=_parse_forced_state, show_default=False, help="State to end with."
    ),
]
Full = Annotated[bool, typer.Option("--full", help="Also delete all records, files and logs of the job.")]

ACTIVE = tuple(state for state in JobState if not state.ended)
_NOT_SUSPENDED = tuple(state for state in ACTIVE if state is not JobState.SUSPENDED)
_ENDED = tuple(state for state in JobState if state.ended and state is not JobState.DELETED)


def suspend(
    job_name: OptionalJobName = None,
    trigger: OptionalTrigger = None,
    let_finish: LetFinish = False,
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
    """Suspend a job, or all jobs that match a filter.

    No further tasks of the job start. Running tasks are stopped, and run again after `shardmill resume`; with
    --let-finish they finish. Without --state, a filter selects all jobs that have not ended.

    \b
    Examples:
      shardmill suspend balance-report 20200121 --reason "wrong rates"
      shardmill suspend balance-report 20200121 --let-finish
      shardmill suspend --job balance-report --since 2026-01-01 --downstream --dry-run
    """
    command = JobCommand(
        verb="suspend",
        default_states=_NOT_SUSPENDED,
        act=lambda client, job_name, trigger: client.suspend(job_name, trigger, reason, let_finish),
    )
    selection = Selection(job_name, trigger, of_job, states, since, until, downstream)
    run_job_command(command, selection, dry_run=dry_run, yes=yes, url=url, token=token, as_json=as_json)


def resume(
    job_name: OptionalJobName = None,
    trigger: OptionalTrigger = None,
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
    """Resume a suspended job, or all that match a filter.

    Completed work is kept. A job that was suspended because it failed starts a new run of its failed tasks.

    \b
    Examples:
      shardmill resume balance-report 20200121 --reason "rates corrected"
      shardmill resume --job balance-report --yes
    """
    command = JobCommand(
        verb="resume",
        default_states=(JobState.SUSPENDED,),
        act=lambda client, job_name, trigger: client.resume(job_name, trigger, reason),
        oldest_first=True,
    )
    selection = Selection(job_name, trigger, of_job, states, since, until, downstream)
    run_job_command(command, selection, dry_run=dry_run, yes=yes, url=url, token=token, as_json=as_json)


def start(
    job_name: OptionalJobName = None,
    trigger: OptionalTrigger = None,
    without_dependencies: WithoutDependencies = False,
    reason: Reason = "",
    of_job: JobFilter = None,
    since: Since = None,
    until: Until = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Start a job that waits for other jobs, without them.

    With a filter, starts all matching jobs that are WAITING. Other reasons to wait, such as `concurrency`,
    still apply.

    \b
    Examples:
      shardmill start daily-summary 20260105 --without-dependencies --reason "rates are not needed"
      shardmill start --job daily-summary --until 2026-01-06 --without-dependencies --dry-run
    """
    if not without_dependencies:
        raise typer.BadParameter(
            "is required: the job would start before the jobs that it waits for",
            param_hint="--without-dependencies",
        )
    command = JobCommand(
        verb="start",
        default_states=(JobState.WAITING,),
        act=lambda client, job_name, trigger: client.start(job_name, trigger, reason),
        oldest_first=True,
    )
    selection = Selection(job_name, trigger, of_job, None, since, until)
    run_job_command(command, selection, dry_run=dry_run, yes=yes, url=url, token=token, as_json=as_json)


def kill(
    job_name: OptionalJobName = None,
    trigger: OptionalTrigger = None,
    step: OneStep = None,
    index: OneIndex = None,
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
    """Kill a job, a step or a task.

    Workers stop the running tasks at their next heartbeat. With a filter, kills all matching jobs; without
    --state, these are all jobs that have not ended.

    \b
    Examples:
      shardmill kill balance-report 20200121 --reason "not needed"
      shardmill kill balance-report 20200121 --step generate_files --index 3
      shardmill kill --job balance-report --state RUNNING --since 2026-01-01 --until 2026-02-01
    """
    _require_step(step, index)

    def show_killed(_client: Client, job: Job, as_json: bool) -> None:
        """Show the step too: its state stays RUNNING until its tasks have stopped."""
        found = next((each for each in job.steps if each.step_name == step), None)
        show_state(job, as_json, f", step {found.step_name} {found.state.value}" if found else "")

    command = JobCommand(
        verb="kill",
        default_states=ACTIVE,
        act=lambda client, job_name, trigger: client.kill(job_name, trigger, reason, step, index),
        step=step,
        show=show_killed,
    )
    selection = Selection(job_name, trigger, of_job, states, since, until, downstream)
    run_job_command(command, selection, dry_run=dry_run, yes=yes, url=url, token=token, as_json=as_json)


def force(
    job_name: OptionalJobName = None,
    trigger: OptionalTrigger = None,
    end: EndState = None,
    step: OneStep = None,
    index: OneIndex = None,
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
    """Force a job, a step or a task to SUCCESS or FAILED.

    Running tasks are stopped, and dependent steps and jobs proceed. With a filter, applies to all matching
    jobs; without --state, these are all jobs that have not ended. Use SUCCESS with --state FAILED to accept
    failed jobs.

    \b
    Examples:
      shardmill force balance-report 20200121 SUCCESS --reason "checked by hand"
      shardmill force balance-report 20200121 SUCCESS --step generate_files --index 3
      shardmill force SUCCESS --job balance-report --state FAILED --until 2026-01-01 --dry-run
    """
    selection = Selection(job_name, trigger, of_job, states, since, until, downstream)
    selection, state = selection.take_argument(end, "SUCCESS|FAILED", _parse_forced_state)
    _require_step(step, index)
    command = JobCommand(
        verb="force",
        default_states=ACTIVE,
        act=lambda client, job_name, trigger: client.force(
            job_name, trigger, state.value, reason, step, index
        ),
        step=step,
    )
    run_job_command(command, selection, dry_run=dry_run, yes=yes, url=url, token=token, as_json=as_json)


def delete(
    job_name: OptionalJobName = None,
    trigger: OptionalTrigger = None,
    full: Full = False,
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
    """Delete a job, or all jobs that match a filter. A running job is killed first.

    A deleted job no longer appears in lists, and its trigger can be used again. Without --state, a filter
    selects all jobs that have ended.

    \b
    Examples:
      shardmill delete balance-report 20200121
      shardmill delete balance-report 20200121 --full
      shardmill delete --job balance-report --until 2025-01-01 --full --dry-run
    """
    command = JobCommand(
        verb="delete",
        default_states=_ENDED,
        act=lambda client, job_name, trigger: client.delete_job(job_name, trigger, full=full),
        oldest_first=True,
    )
    selection = Selection(job_name, trigger, of_job, states, since, until, downstream)
    run_job_command(command, selection, dry_run=dry_run, yes=yes, url=url, token=token, as_json=as_json)


def _require_step(step: str | None, index: int | None) -> None:
    if index is not None and step is None:
        raise typer.BadParameter("requires --step", param_hint="--index")
