"""suspend, resume, kill"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from shardmill.cli import output
from shardmill.cli.bulk.job_command import Order, for_jobs, tell
from shardmill.cli.options import JobName, Json, Reason, Token, Trigger, Url
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


class End(StrEnum):
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"


def _end(text: str) -> End:
    try:
        return End(text.upper())
    except ValueError:
        raise typer.BadParameter(f"{text!r} must be one of {', '.join(End)}") from None


Verdict = Annotated[End, typer.Argument(metavar="SUCCESS|FAILED", parser=_end, help="How it ends.")]
_ENDED = tuple(state for state in JobState if state.ended and state is not JobState.DELETED)
Full = Annotated[bool, typer.Option("--full", help="With all its rows, files and logs.")]


@for_jobs
def force(end: Verdict, step: OneStep = None, index: OneIndex = None, reason: Reason = "") -> Order:
    """Force a Job, a step or a task to an end that you vouch for, or all Jobs that a filter chooses.

    What waited for it moves on. What of it still runs is told to stop. A filter without --state is for all
    Jobs that have not ended; with --state FAILED, those that failed are taken for done.

    \b
    Examples:
      shardmill force balance-report 20200121 SUCCESS --reason "checked by hand"
      shardmill force balance-report 20200121 SUCCESS --step generate_files --index 3
      shardmill force SUCCESS --job balance-report --state FAILED --until 2026-01-01 --dry-run
    """
    if index is not None and step is None:
        raise typer.BadParameter("needs the --step that the task is of", param_hint="--index")
    return Order(
        verb="force",
        usual=OPEN,
        act=lambda client, job_name, trigger: client.force(job_name, trigger, end.value, reason, step, index),
        step=step,
    )


@for_jobs
def delete(full: Full = False) -> Order:
    """Delete a Job, or all that a filter chooses; one that runs is killed first.

    It is gone from all lists, and its trigger is free for another. A filter without --state is for all Jobs
    that have ended.

    \b
    Examples:
      shardmill delete balance-report 20200121
      shardmill delete balance-report 20200121 --full
      shardmill delete --job balance-report --until 2025-01-01 --full --dry-run
    """
    return Order(
        verb="delete",
        usual=_ENDED,
        act=lambda client, job_name, trigger: client.delete_job(job_name, trigger, full=full),
        oldest_first=True,
    )


def why(
    job_name: JobName, trigger: Trigger, url: Url = None, token: Token = None, as_json: Json = False
) -> None:
    """Say why a Job is not finished, or what its end came from.

    \b
    Examples:
      shardmill why balance-report 20200121
      shardmill why balance-report 20200121 --json | jq -r .sentences[]
    """
    from shardmill.client import Client

    with Client(url, token) as client:
        told = client.explain(job_name, trigger)
    if as_json:
        output.json_document(told)
        return
    for sentence in told.sentences:
        output.line(sentence)
