"""suspend, resume, kill"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from shardmill.cli.options import Reason
from shardmill.cli.orders import Order, for_jobs, tell
from shardmill.model.states import JobState

if TYPE_CHECKING:
    from shardmill.client import Client
    from shardmill.model.job import Job

LetFinish = Annotated[bool, typer.Option("--let-finish", help="Running tasks may end by themselves.")]
OneStep = Annotated[
    str | None,
    typer.Option("--step", metavar="STEP", show_default=False, help="Only this step; its Job goes on."),
]
OneIndex = Annotated[
    int | None,
    typer.Option(
        "--index", metavar="N", min=0, show_default=False, help="Only the task of --step with this index."
    ),
]

OPEN = tuple(state for state in JobState if not state.ended)
_GOING = tuple(state for state in OPEN if state is not JobState.SUSPENDED)


@for_jobs
def suspend(let_finish: LetFinish = False, reason: Reason = "") -> Order:
    """Suspend a Job, or all that a filter chooses.

    Nothing of it is leased any more; its running tasks are told to stop, and run again when it is resumed.
    A filter without --state is for all that have not ended.

    \b
    Examples:
      shardmill suspend balance-report 20200121 --reason "wrong rates"
      shardmill suspend balance-report 20200121 --let-finish
      shardmill suspend --job balance-report --since 2026-01-01 --downstream --dry-run
    """
    return Order(
        verb="suspend",
        usual=_GOING,
        act=lambda client, job_name, trigger: client.suspend(job_name, trigger, reason, let_finish),
    )


@for_jobs
def resume(reason: Reason = "") -> Order:
    """Let a suspended Job go on, or all that a filter chooses.

    What has succeeded is kept. One that its own failure suspended gets a new run of what failed.

    \b
    Examples:
      shardmill resume balance-report 20200121 --reason "rates are mended"
      shardmill resume --job balance-report --yes
    """
    return Order(
        verb="resume",
        usual=(JobState.SUSPENDED,),
        act=lambda client, job_name, trigger: client.resume(job_name, trigger, reason),
        oldest_first=True,
    )


@for_jobs
def kill(step: OneStep = None, index: OneIndex = None, reason: Reason = "") -> Order:
    """End a Job, one of its steps or tasks, or all Jobs that a filter chooses.

    Workers stop what they run of it with their next heartbeat. A filter without --state is for all Jobs that
    have not ended.

    \b
    Examples:
      shardmill kill balance-report 20200121 --reason "not needed"
      shardmill kill balance-report 20200121 --step generate_files --index 3
      shardmill kill --job balance-report --state RUNNING --since 2026-01-01 --until 2026-02-01
    """
    if index is not None and step is None:
        raise typer.BadParameter("needs the --step that it is of", param_hint="--index")

    def tell_killed(_client: Client, job: Job, as_json: bool) -> None:
        """A running step ends when its tasks have, and so is not KILLED at once."""
        found = next((each for each in job.steps if each.step_name == step), None)
        tell(job, as_json, f", step {found.step_name} {found.state.value}" if found else "")

    return Order(
        verb="kill",
        usual=OPEN,
        act=lambda client, job_name, trigger: client.kill(job_name, trigger, reason, step, index),
        step=step,
        tell=tell_killed,
    )
