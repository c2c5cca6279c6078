"""tasks, logs"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from shardmill.cli import output
from shardmill.cli.options import JobName, Json, StepName, Token, Trigger, Url
from shardmill.model.states import TaskState

if TYPE_CHECKING:
    from shardmill.client.api import Stream
    from shardmill.model.job import Task

State = Annotated[
    TaskState | None,
    typer.Option("--state", case_sensitive=False, show_default=False, help="Only in this state."),
]
Most = Annotated[
    int | None,
    typer.Option(
        "--limit", metavar="N", min=1, show_default=False, help="How many at most; without it, all."
    ),
]
Index = Annotated[int, typer.Argument(metavar="INDEX", min=0, help="The index of the task.")]
Stderr = Annotated[bool, typer.Option("--stderr", help="Its standard error, not its standard output.")]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on until the task has ended.")]


def _progress(task: Task) -> str:
    from shardmill.cli.progress import told

    return told(task.progress)


_COLUMNS: dict[str, Callable[[Task], object]] = {
    "INDEX": lambda task: task.sharding.index,
    "STATE": lambda task: task.state.value,
    "ATTEMPT": lambda task: task.attempt,
    "WORKER": lambda task: task.worker,
    "STARTED": lambda task: task.execute_time,
    "TOOK": lambda task: output.took(task.execute_time, task.completed_time),
    "PROGRESS": _progress,
}


def tasks(
    job_name: JobName,
    trigger: Trigger,
    step_name: StepName,
    state: State = None,
    limit: Most = None,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """List the tasks of a step.

    \b
    Examples:
      shardmill tasks balance-report 20200121 generate_files
      shardmill tasks balance-report 20200121 generate_files --state FAILED
    """
    from shardmill.client import Client

    with Client(url, token) as client:
        page = min(limit or 200, 200)
        found = islice(client.tasks(job_name, trigger, step_name, state, page=page), limit)
        output.listing(found, _COLUMNS, as_json)


def logs(
    job_name: JobName,
    trigger: Trigger,
    step_name: StepName,
    index: Index,
    stderr: Stderr = False,
    follow: Follow = False,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Print the output of a task.

    That of its last attempt; with --follow, of this attempt and those that come.

    \b
    Examples:
      shardmill logs balance-report 20200121 merge_files 0
      shardmill logs balance-report 20200121 generate_files 3 --stderr --follow
    """
    from shardmill.client import Client

    stream: Stream = "stderr" if stderr else "stdout"
    with Client(url, token) as client:
        pieces = client.logs(job_name, trigger, step_name, index, stream, follow=follow)
        if as_json and not follow:
            pieces = iter(["".join(pieces)])
        for piece in pieces:
            if as_json:
                output.json_line({"stream": stream, "text": piece})
            else:
                sys.stdout.write(piece)
                sys.stdout.flush()
