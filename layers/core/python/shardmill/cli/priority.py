"""priority"""

from __future__ import annotations

from typing import Annotated

import typer

from shardmill.cli import output
from shardmill.cli.options import JobName, Json, Token, Trigger, Url

Priority = Annotated[int, typer.Argument(metavar="N", help="Any integer; the higher goes first.")]


def priority(
    job_name: JobName,
    trigger: Trigger,
    number: Priority,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Change how soon the tasks of a Job go out.

    Of its tasks that are queued already, too. 10 and more is urgent, below 0 is for quiet hours.

    \b
    Examples:
      shardmill priority balance-report 20200121 10
      shardmill priority balance-report 20200121 -1
    """
    from shardmill.client import Client

    with Client(url, token) as client:
        job = client.set_priority(job_name, trigger, number)
    if as_json:
        output.json_document(job)
    else:
        output.line(f"{job.job_name} {job.trigger} {job.state.value} priority {job.priority}")
