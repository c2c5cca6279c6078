"""change, priority"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from shardmill.cli import output
from shardmill.cli.bulk.job_command import Order, for_jobs, tell
from shardmill.cli.commands.control import OPEN
from shardmill.cli.options import Reason

if TYPE_CHECKING:
    from shardmill.client import Client
    from shardmill.model.job import Job


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} must be an integer, such as 10 or -1") from None


OfStep = Annotated[
    str | None,
    typer.Option("--step", metavar="STEP", show_default=False, help="Only of this step; else of all."),
]
NewPriority = Annotated[
    int | None,
    typer.Option("--priority", metavar="N", show_default=False, help="Any integer; the higher goes first."),
]
NewGroups = Annotated[
    list[str] | None,
    typer.Option(
        "--group",
        metavar="GROUP",
        show_default=False,
        help="A worker group to go to instead of those before; repeatable.",
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
        help="How many tasks of a step may be alive at once.",
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
        help="Attempts of a task after its first failure.",
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
        help="The time that an attempt may take.",
    ),
]
Priority = Annotated[
    int, typer.Argument(metavar="N", parser=_whole, help="Any integer; the higher goes first.")
]


@for_jobs
def change(
    step: OfStep = None,
    priority: NewPriority = None,
    groups: NewGroups = None,
    max_tasks: MaxTasks = None,
    retries: Retries = None,
    timeout: TaskTimeout = None,
    reason: Reason = "",
) -> Order:
    """Change a Job that has not ended, or all that a filter chooses.

    What waits follows at once: tasks move to other groups or lanes. What runs ends as it began. Later runs of
    the Job keep the change; its definition is not touched. A filter without --state is for all Jobs that have
    not ended.

    \b
    Examples:
      shardmill change balance-report 20200121 --group big --reason "more memory"
      shardmill change balance-report 20200121 --step generate_files --retries 5 --timeout 600
      shardmill change --job balance-report --state RUNNING --max-tasks 20 --dry-run
    """
    wish = {
        "priority": priority,
        "groups": groups or None,
        "max tasks": max_tasks,
        "retries": retries,
        "timeout": timeout,
    }
    words = [f"{name} {output.cell(value)}" for name, value in wish.items() if value is not None]
    if not words:
        raise typer.BadParameter(
            "there is nothing to change: give at least one of --priority, --group, --max-tasks, --retries "
            "and --timeout"
        )

    def act(client: Client, job_name: str, trigger: str) -> Job:
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

    changed = f", {f'step {step}' if step else 'all steps'}: {', '.join(words)}"
    return Order(
        verb="change",
        usual=OPEN,
        act=act,
        step=step,
        tell=lambda _client, job, as_json: tell(job, as_json, changed),
    )


@for_jobs
def priority(number: Priority, reason: Reason = "") -> Order:
    """Change how soon the tasks of a Job go out, or of all that a filter chooses.

    Of its tasks that are queued already, too. 10 and more is urgent, below 0 is for quiet hours. A filter
    without --state is for all Jobs that have not ended.

    \b
    Examples:
      shardmill priority balance-report 20200121 10
      shardmill priority balance-report 20200121 -1
      shardmill priority 10 --job balance-report --since 2026-01-01 --downstream --dry-run
    """
    return Order(
        verb="prioritise",
        usual=OPEN,
        act=lambda client, job_name, trigger: client.set_priority(job_name, trigger, number, reason),
        tell=lambda _client, job, as_json: tell(job, as_json, f" priority {job.priority}"),
    )
