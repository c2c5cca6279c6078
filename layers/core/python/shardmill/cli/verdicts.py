"""force, delete, why"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from shardmill.cli import output
from shardmill.cli.control import OneIndex, OneStep
from shardmill.cli.options import JobName, Json, Reason, Token, Trigger, Url
from shardmill.cli.orders import tell


class End(StrEnum):
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"


Verdict = Annotated[End, typer.Argument(case_sensitive=False, metavar="SUCCESS|FAILED", help="How it ends.")]
Full = Annotated[bool, typer.Option("--full", help="With all its rows, files and logs.")]


def force(
    job_name: JobName,
    trigger: Trigger,
    end: Verdict,
    step: OneStep = None,
    index: OneIndex = None,
    reason: Reason = "",
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Force a Job, a step or a task to an end that you vouch for.

    What waited for it moves on. What of it still runs is told to stop.

    \b
    Examples:
      shardmill force balance-report 20200121 SUCCESS --reason "checked by hand"
      shardmill force balance-report 20200121 SUCCESS --step generate_files --index 3
    """
    from shardmill.client import Client

    if index is not None and step is None:
        raise typer.BadParameter("needs the --step that the task is of", param_hint="--index")
    with Client(url, token) as client:
        job = client.force(job_name, trigger, end.value, reason, step, index)
    tell(job, as_json)


def delete(
    job_name: JobName, trigger: Trigger, full: Full = False, url: Url = None, token: Token = None
) -> None:
    """Delete a Job; one that runs is killed first.

    It is gone from all lists, and its trigger is free for another.

    \b
    Examples:
      shardmill delete balance-report 20200121
      shardmill delete balance-report 20200121 --full
    """
    from shardmill.client import Client

    with Client(url, token) as client:
        client.delete_job(job_name, trigger, full=full)
    output.message(f"{job_name} {trigger} deleted")


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
