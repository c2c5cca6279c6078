"""force, delete, why"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from shardmill.cli import output
from shardmill.cli.control import OPEN, OneIndex, OneStep
from shardmill.cli.options import JobName, Json, Reason, Token, Trigger, Url
from shardmill.cli.orders import Order, for_jobs
from shardmill.model.states import JobState


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
