"""change, priority: change the settings of one job, or of all jobs that match a filter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from shardmill.cli import complete, output
from shardmill.cli.bulk.job_command import JobCommand, show_state
from shardmill.cli.bulk.run import run_job_command
from shardmill.cli.bulk.selection import Selection
from shardmill.cli.commands.control import ACTIVE
from shardmill.cli.options import (
    Downstream,
    DryRun,
    JobFilter,
    Json,
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

if TYPE_CHECKING:
    from shardmill.client.control import Actions


def _parse_integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} must be an integer, such as 10 or -1") from None


ChangedStep = Annotated[
    str | None,
    typer.Option(
        "--step",
        metavar="STEP",
        show_default=False,
        help="Change this step only, not all steps.",
        autocompletion=complete.steps,
    ),
]
NewPriority = Annotated[
    int | None,
    typer.Option("--priority", metavar="N", show_default=False, help="Priority; higher numbers run first."),
]
NewGroups = Annotated[
    list[str] | None,
    typer.Option(
        "--group",
        metavar="GROUP",
        show_default=False,
        help="Worker group that replaces the current groups. Repeatable.",
        autocompletion=complete.groups,
    ),
]
MaxTasks = Annotated[
    int | None,
    typer.Option(
        "--max-tasks",
        metavar="N",
        min=1,
        max=1_000_000,
        show_default=False,
        help="Maximum number of concurrent tasks of a step.",
    ),
]
Retries = Annotated[
    int | None,
    typer.Option(
        "--retries",
        metavar="N",
        min=0,
        max=1_000,
        show_default=False,
        help="Number of retries after a task's first failure.",
    ),
]
TaskTimeout = Annotated[
    int | None,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=1,
        max=10 * 366 * 86_400,
        show_default=False,
        help="Timeout of an attempt.",
    ),
]
Priority = Annotated[
    int | None,
    typer.Argument(
        metavar="N",
        parser=_parse_integer,
        show_default=False,
        help="Priority; higher numbers run first.",
    ),
]


def change(
    job_name: OptionalJobName = None,
    trigger: OptionalTrigger = None,
    step: ChangedStep = None,
    priority: NewPriority = None,
    groups: NewGroups = None,
    max_tasks: MaxTasks = None,
    retries: Retries = None,
    timeout: TaskTimeout = None,
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
    """Change the settings of a job that has not ended.

    The change applies to queued tasks immediately and to all later runs of the job. Running tasks and the
    definition are not affected. With a filter, changes all matching jobs; without --state, these are all jobs
    that have not ended.

    \b
    Examples:
      shardmill change balance-report 20200121 --group big --reason "more memory"
      shardmill change balance-report 20200121 --step generate_files --retries 5 --timeout 600
      shardmill change --job balance-report --state RUNNING --max-tasks 20 --dry-run
    """
    settings = {
        "priority": priority,
        "groups": groups or None,
        "max tasks": max_tasks,
        "retries": retries,
        "timeout": timeout,
    }
    changes = [f"{name} {output.cell(value)}" for name, value in settings.items() if value is not None]
    if not changes:
        raise typer.BadParameter(
            "nothing to change: give at least one of --priority, --group, --max-tasks, --retries and "
            "--timeout"
        )

    def act(client: Actions[Any], job_name: str, trigger: str) -> Any:
        return client.change(
            job_name,
            trigger,
            step=step,
            priority=priority,
            worker_groups=groups or None,
            max_task_count=max_tasks,
            failed_retries=retries,
            timeout_seconds=timeout,
            reason=reason,
        )

    summary = f", {f'step {step}' if step else 'all steps'}: {', '.join(changes)}"
    command = JobCommand(
        verb="change",
        default_states=ACTIVE,
        act=act,
        step=step,
        show=lambda _client, job, as_json: show_state(job, as_json, summary),
    )
    selection = Selection(job_name, trigger, of_job, states, since, until, downstream)
    run_job_command(command, selection, dry_run=dry_run, yes=yes, url=url, token=token, as_json=as_json)


def priority(
    job_name: OptionalJobName = None,
    trigger: OptionalTrigger = None,
    number: Priority = None,
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
    """Change the priority of a job that has not ended.

    The change also applies to queued tasks. Waiting tasks of a group run in order of priority, highest first;
    the default is 1. With a filter, changes all matching jobs; without --state, these are all jobs that have
    not ended.

    \b
    Examples:
      shardmill priority balance-report 20200121 10
      shardmill priority balance-report 20200121 -1
      shardmill priority 10 --job balance-report --since 2026-01-01 --downstream --dry-run
    """
    selection = Selection(job_name, trigger, of_job, states, since, until, downstream)
    selection, new_priority = selection.take_argument(number, "N", _parse_integer)
    command = JobCommand(
        verb="prioritize",
        default_states=ACTIVE,
        act=lambda client, job_name, trigger: client.set_priority(job_name, trigger, new_priority, reason),
        show=lambda _client, job, as_json: show_state(job, as_json, f" priority {job.priority}"),
    )
    run_job_command(command, selection, dry_run=dry_run, yes=yes, url=url, token=token, as_json=as_json)
