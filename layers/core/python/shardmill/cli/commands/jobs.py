"""submit, jobs, job, watch"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from shardmill.cli import output
from shardmill.cli.commands.dependencies import show_parents
from shardmill.cli.options import JobName, Json, OfJob, Param, Run, Timeout, Token, Trigger, Url, Wait
from shardmill.cli.parsing import params, step_params
from shardmill.cli.render.bars import shown_transfers
from shardmill.cli.render.job import show_job, verdict
from shardmill.cli.wait import await_job, check_timeout, tell_run
from shardmill.model.states import JobState

if TYPE_CHECKING:
    from shardmill.client import Client
    from shardmill.model.job import Job

OwnTrigger = Annotated[
    str | None,
    typer.Option(
        "--trigger", metavar="TRIGGER", show_default=False, help="Names this run; without it, the time."
    ),
]
StepParam = Annotated[
    list[str] | None,
    typer.Option(
        "--step-param",
        metavar="STEP.NAME=VALUE",
        show_default=False,
        help="A parameter of one step; repeatable.",
    ),
]
Files = Annotated[
    list[str] | None,
    typer.Option(
        "--file",
        metavar="NAME=PATH",
        show_default=False,
        help="A file that comes with the Job, for the steps that read NAME; repeatable.",
    ),
]
State = Annotated[
    JobState | None,
    typer.Option("--state", case_sensitive=False, show_default=False, help="Only in this state."),
]
User = Annotated[
    str | None,
    typer.Option("--user", metavar="USER", show_default=False, help="Only those this user submitted."),
]
Most = Annotated[int, typer.Option("--limit", metavar="N", min=1, help="How many at most.")]

_COLUMNS: dict[str, Callable[[Job], object]] = {
    "JOB": lambda job: job.job_name,
    "TRIGGER": lambda job: job.trigger,
    "STATE": lambda job: job.state.value,
    "SUBMITTED": lambda job: job.create_time,
    "TOOK": lambda job: output.took(job.create_time, job.completed_time),
    "BY": lambda job: job.submit_user,
}


def submit(
    job_name: JobName,
    trigger: OwnTrigger = None,
    param: Param = None,
    step_param: StepParam = None,
    file: Files = None,
    wait: Wait = False,
    timeout: Timeout = None,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Ask for a run of a definition. The same request again gives the same Job.

    A --file is uploaded, unless the same content is there already, and becomes the input of that name.

    \b
    Examples:
      shardmill submit balance-report
      shardmill submit balance-report --trigger 20200121 --param reportDate=2020-01-21
      shardmill submit balance-report --step-param merge_files.title="January" --wait --timeout 600
      shardmill submit word-count --trigger book1 --file text.txt=./book.txt --wait
    """
    from shardmill.client import Client

    check_timeout(wait, timeout)
    job_params, steps = params(param or ()), step_params(step_param or ())
    files = params(file or (), "--file", "NAME=PATH")
    with Client(url, token) as client:
        with shown_transfers() as progress:
            job = client.submit(job_name, trigger, job_params, steps, files=files, progress=progress)
        tell_run(client, job, wait, timeout, as_json)


def watch(
    job_name: JobName,
    trigger: Trigger,
    timeout: Timeout = None,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Watch a Job until it has ended.

    Shows a live progress bar for each step; with --json, one line for every change. Exit code 4 if it
    failed, 5 if the time was over.

    \b
    Examples:
      shardmill watch balance-report 20200121
      shardmill watch balance-report 20200121 --json | jq -r .state
    """
    from shardmill.client import Client

    with Client(url, token) as client:
        if as_json:
            _watch_lines(client, job_name, trigger, timeout)
        else:
            await_job(client, job_name, trigger, timeout, as_json=False)


def jobs(
    job_name: OfJob = None,
    state: State = None,
    user: User = None,
    limit: Most = 50,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """List Jobs, newest first.

    \b
    Examples:
      shardmill jobs
      shardmill jobs --job balance-report --state FAILED
      shardmill jobs --limit 1000 --json | jq -r '.[].trigger'
    """
    from shardmill.client import Client

    with Client(url, token) as client:
        found = islice(client.jobs(job_name, state, user, page=min(limit, 200)), limit)
        output.listing(found, _COLUMNS, as_json)


def job(
    job_name: JobName,
    trigger: Trigger,
    run: Run = None,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Show a Job and its steps.

    Of one that waits for other jobs, also which runs of them it waits for. With --run, the steps as they were
    in that run; what it says of the Job itself is of the present.

    \b
    Examples:
      shardmill job balance-report 20200121
      shardmill job balance-report 20200121 --run 1
      shardmill job balance-report 20200121 --json | jq '.steps[].counts'
    """
    from shardmill.client import Client

    with Client(url, token) as client:
        found = client.job(job_name, trigger, run=run)
        if as_json:
            output.json_document(found)
            return
        show_job(found)
        if found.state is JobState.WAITING and run is None:
            show_parents(client, found)


def _watch_lines(client: Client, job_name: str, trigger: str, timeout: float | None) -> NoReturn:
    before: list[Job] = []

    def show(found: Job) -> None:
        if before != [found]:
            output.json_line(found)
            before[:] = [found]

    raise typer.Exit(verdict(client, client.wait(job_name, trigger, timeout, show)))
