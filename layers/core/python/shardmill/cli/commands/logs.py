"""logs: print the output of a task."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from shardmill.cli import output
from shardmill.cli.log_text import LogText
from shardmill.cli.options import JobName, Json, StepName, Token, Trigger, Url
from shardmill.cli.terminal import coloured

if TYPE_CHECKING:
    from shardmill.client.client import Stream

Index = Annotated[int, typer.Argument(metavar="INDEX", min=0, help="Index of the task.")]
Attempt = Annotated[
    int | None,
    typer.Option(
        "--attempt", metavar="N", min=1, show_default="the last", help="Number of the attempt to print."
    ),
]
Stderr = Annotated[bool, typer.Option("--stderr", help="Print standard error instead of standard output.")]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Keep printing new output until the task ends.")]


def logs(
    job_name: JobName,
    trigger: Trigger,
    step_name: StepName,
    index: Index,
    stderr: Stderr = False,
    attempt: Attempt = None,
    follow: Follow = False,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Print the output of a task.

    Prints the output of the last attempt, or of the one given with --attempt. With --follow, also prints the
    output of later attempts. A terminal shows colours; other control sequences are written to pipes and
    files only.

    \b
    Examples:
      shardmill logs balance-report 20200121 merge_files 0
      shardmill logs balance-report 20200121 generate_files 3 --stderr --follow
      shardmill logs balance-report 20200121 generate_files 3 --attempt 1
    """
    from shardmill.client.client import Client

    stream: Stream = "stderr" if stderr else "stdout"
    with Client(url, token) as client:
        pieces = client.logs(job_name, trigger, step_name, index, stream, attempt=attempt, follow=follow)
        if as_json and not follow:
            pieces = iter(["".join(pieces)])
        text = LogText(coloured(sys.stdout)) if sys.stdout.isatty() else None
        for piece in pieces:
            if as_json:
                output.json_line({"stream": stream, "text": piece})
            else:
                sys.stdout.write(text.shown(piece) if text else piece)
                sys.stdout.flush()
        if text and not as_json:
            sys.stdout.write(text.end())
