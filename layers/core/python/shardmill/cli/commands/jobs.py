"""submit, jobs, job, watch: submit jobs and follow them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from shardmill.cli import output
from shardmill.cli.bulk.submit_file import submit_requests
from shardmill.cli.commands.dependencies import show_dependencies
from shardmill.cli.options import (
    After,
    DataTime,
    JobFilter,
    JobName,
    Json,
    OptionalJobName,
    Param,
    Run,
    Timeout,
    Token,
    Trigger,
    Url,
    Wait,
)
from shardmill.cli.parsing import (
    parse_duration,
    parse_params,
    parse_step_fields,
    parse_step_params,
)
from shardmill.cli.render.bars import transfer_progress
from shardmill.cli.render.job import exit_code, show_job
from shardmill.cli.wait import check_timeout, show_submitted, wait_for_job
from shardmill.cli.watch import Watch, show_list
from shardmill.model.states import JobState

if TYPE_CHECKING:
    from shardmill.client.client import Client
    from shardmill.model.job import Job

NewTrigger = Annotated[
    str | None,
    typer.Argument(
        metavar="TRIGGER",
        show_default=False,
        help="Trigger that identifies the job. Default: the current time.",
    ),
]
TriggerOption = Annotated[
    str | None,
    typer.Option(
        "--trigger",
        metavar="TRIGGER",
        show_default=False,
        help="The same as the argument TRIGGER.",
    ),
]
StepParam = Annotated[
    list[str] | None,
    typer.Option(
        "--step-param",
        metavar="STEP.NAME=VALUE",
        show_default=False,
        help="Parameter of one step. Repeatable.",
    ),
]
StepField = Annotated[
    list[str] | None,
    typer.Option(
        "--step",
        metavar="STEP.FIELD=VALUE",
        show_default=False,
        help="Setting of one step for this job, such as load.sharding=6 or mail.ignore=true. Repeatable.",
    ),
]
Deadline = Annotated[
    int | None,
    typer.Option(
        "--deadline",
        metavar="DURATION",
        parser=parse_duration,
        show_default=False,
        help="Time until the deadline of the job, such as 900, 15m or 2h.",
    ),
]
Priority = Annotated[
    int | None,
    typer.Option("--priority", metavar="N", show_default=False, help="Priority of the job; higher first."),
]
Files = Annotated[
    list[str] | None,
    typer.Option(
        "--file",
        metavar="NAME=PATH",
        show_default=False,
        help="File to upload as the input NAME of the job. Repeatable.",
    ),
]
DataTokenFile = Annotated[
    typer.FileText | None,
    typer.Option(
        "--data-token-file",
        metavar="FILE",
        show_default=False,
        help="File with the data token for the tasks of a job with info.auth; - reads stdin.",
    ),
]
Requests = Annotated[
    str | None,
    typer.Option(
        "--requests",
        metavar="FILE",
        show_default=False,
        help="Submit each line of this file, a JobRequest in JSON, instead of JOB; - reads stdin.",
    ),
]
State = Annotated[
    JobState | None,
    typer.Option(
        "--state",
        metavar="STATE",
        case_sensitive=False,
        show_default=False,
        help="List jobs in this state only, such as RUNNING.",
    ),
]
User = Annotated[
    str | None,
    typer.Option("--user", metavar="USER", show_default=False, help="List jobs submitted by this user only."),
]
Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, help="Maximum number of jobs to list.")]

_COLUMNS: dict[str, Callable[[Job], object]] = {
    "JOB": lambda job: job.job_name,
    "TRIGGER": lambda job: job.trigger,
    "STATE": lambda job: job.state.value,
    "SUBMITTED": lambda job: job.create_time,
    "DURATION": lambda job: output.elapsed(job.started_time, job.completed_time, running=job.registered),
    "USER": lambda job: job.submit_user,
}


def submit(
    job_name: OptionalJobName = None,
    new_trigger: NewTrigger = None,
    trigger: TriggerOption = None,
    param: Param = None,
    step_param: StepParam = None,
    step: StepField = None,
    data_time: DataTime = None,
    after: After = None,
    deadline: Deadline = None,
    priority: Priority = None,
    file: Files = None,
    data_token_file: DataTokenFile = None,
    requests: Requests = None,
    wait: Wait = False,
    timeout: Timeout = None,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Submit a job, or many with --requests.

    Submitting an identical request again returns the existing job. A --file is uploaded, unless its content
    already exists in the store, and becomes the job input of that name. With --requests, a request that is
    refused does not stop the others, and the exit code is 1.

    \b
    Examples:
      shardmill submit balance-report
      shardmill submit balance-report 20200121 --param reportDate=2020-01-21
      shardmill submit balance-report --step-param merge_files.title="January" --wait --timeout 600
      shardmill submit balance-report --step generate_files.sharding=6 --step merge_files.ignore=true
      shardmill submit balance-report --data-time 2026-01-21 --after 2026-01-22T06:00Z --deadline 2h
      shardmill submit word-count --trigger book1 --file text.txt=./book.txt --wait
      shardmill submit private-data --data-token-file ~/.data-token
      shardmill submit --requests requests.jsonl
    """
    from shardmill.client.client import Client

    if new_trigger and trigger:
        raise typer.BadParameter("give the trigger once", param_hint="--trigger")
    trigger = new_trigger or trigger
    if requests is not None:
        settings = (param, step_param, step, data_time, after, deadline, priority, file, data_token_file)
        if job_name or trigger or wait or any(each is not None for each in settings):
            raise typer.BadParameter("cannot be combined with JOB or its options", param_hint="--requests")
        submit_requests(requests, url, token, as_json)
        return
    if job_name is None:
        raise typer.BadParameter("give the name of a definition, or --requests", param_hint="JOB")
    check_timeout(wait, timeout)
    job_params, steps = parse_params(param or ()), parse_step_params(step_param or ())
    overrides, files = parse_step_fields(step or ()), parse_params(file or (), "--file", "NAME=PATH")
    with Client(url, token) as client:
        with transfer_progress() as progress:
            job = client.submit(
                job_name,
                trigger,
                job_params,
                steps,
                overrides=overrides,
                data_time=data_time.to_utc("UTC") if data_time else None,
                after=after.to_utc("UTC") if after else None,
                deadline_seconds=deadline,
                priority=priority,
                files=files,
                data_token=data_token_file.read().strip() if data_token_file else None,
                progress=progress,
            )
        show_submitted(client, job, wait, timeout, as_json)


def watch(
    job_name: JobName,
    trigger: Trigger,
    timeout: Timeout = None,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Watch a job until it ends.

    Shows a live progress bar for each step, or, with --json, one line for every change. Exits with code 4 if
    the job fails and with code 5 after --timeout.

    \b
    Examples:
      shardmill watch balance-report 20200121
      shardmill watch balance-report 20200121 --json | jq -r .state
    """
    from shardmill.client.client import Client

    with Client(url, token) as client:
        if as_json:
            _watch_as_json(client, job_name, trigger, timeout)
        else:
            wait_for_job(client, job_name, trigger, timeout, as_json=False)


def jobs(
    job_name: JobFilter = None,
    state: State = None,
    user: User = None,
    limit: Limit = 50,
    watch: Watch = False,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """List jobs, newest first.

    \b
    Examples:
      shardmill jobs
      shardmill jobs --job balance-report --state FAILED
      shardmill jobs --state RUNNING --watch
      shardmill jobs --limit 1000 --json | jq -r '.[].trigger'
    """
    from shardmill.client.client import Client

    with Client(url, token) as client:
        show_list(
            lambda: islice(client.jobs(job_name, state, user, page=min(limit, 200)), limit),
            _COLUMNS,
            as_json,
            watch,
        )


def job(
    job_name: JobName,
    trigger: Trigger,
    run: Run = None,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Show a job and its steps.

    Also lists the dependencies of a job that waits for other jobs. With --run, shows the steps of an earlier
    run; the fields of the job itself are always the current ones.

    \b
    Examples:
      shardmill job balance-report 20200121
      shardmill job balance-report 20200121 --run 1
      shardmill job balance-report 20200121 --json | jq '.steps[].counts'
    """
    from shardmill.client.client import Client

    with Client(url, token) as client:
        found = client.job(job_name, trigger, run=run)
        if as_json:
            output.json_document(found)
            return
        show_job(found)
        if found.state is JobState.WAITING and run is None:
            show_dependencies(client, found)


def _watch_as_json(client: Client, job_name: str, trigger: str, timeout: float | None) -> NoReturn:
    last: Job | None = None

    def show(found: Job) -> None:
        nonlocal last
        if found != last:
            output.json_line(found)
            last = found

    raise typer.Exit(exit_code(client, client.wait(job_name, trigger, timeout, show)))
