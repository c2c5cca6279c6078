"""Arguments and options that several commands share."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from shardmill.cli import complete
from shardmill.cli.parsing import Moment, parse_moment
from shardmill.model.states import JobState

# Connection and output

Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        envvar="SHARDMILL_URL",
        show_default=False,
        help="URL of the API. Default: the running `shardmill dev`.",
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        metavar="TOKEN",
        envvar="SHARDMILL_TOKEN",
        show_default=False,
        help="Bearer token for the API.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON to standard output.")]

# Names

JobName = Annotated[
    str,
    typer.Argument(metavar="JOB", help="Name of the job definition.", autocompletion=complete.definitions),
]
Trigger = Annotated[
    str,
    typer.Argument(
        metavar="TRIGGER", help="Trigger that identifies the job.", autocompletion=complete.triggers
    ),
]
StepName = Annotated[
    str, typer.Argument(metavar="STEP", help="Name of the step.", autocompletion=complete.steps)
]
ScheduleId = Annotated[
    str, typer.Argument(metavar="ID", help="ID of the schedule.", autocompletion=complete.schedules)
]

# Selection of one job (JOB TRIGGER) or of many (a filter)

OptionalJobName = Annotated[
    str | None,
    typer.Argument(
        metavar="JOB",
        show_default=False,
        help="Name of the job definition.",
        autocompletion=complete.definitions,
    ),
]
OptionalTrigger = Annotated[
    str | None,
    typer.Argument(
        metavar="TRIGGER",
        show_default=False,
        help="Trigger that identifies the job.",
        autocompletion=complete.triggers,
    ),
]
JobFilter = Annotated[
    str | None,
    typer.Option(
        "--job",
        metavar="JOB",
        show_default=False,
        help="Select jobs of this definition.",
        autocompletion=complete.definitions,
    ),
]
OneStep = Annotated[
    str | None,
    typer.Option(
        "--step",
        metavar="STEP",
        show_default=False,
        help="Apply to this step only; the job continues.",
        autocompletion=complete.steps,
    ),
]
StateFilter = Annotated[
    list[JobState] | None,
    typer.Option(
        "--state",
        metavar="STATE",
        case_sensitive=False,
        show_default=False,
        help="Select jobs in this state, such as RUNNING. Repeatable.",
    ),
]
Since = Annotated[
    Moment | None,
    typer.Option(
        "--since",
        metavar="TIME",
        parser=parse_moment,
        show_default=False,
        help="Select jobs whose data time, or submission time if they have none, is at or after TIME.",
    ),
]
Until = Annotated[
    Moment | None,
    typer.Option(
        "--until",
        metavar="TIME",
        parser=parse_moment,
        show_default=False,
        help="Select jobs before TIME (exclusive). A date means 00:00 UTC.",
    ),
]
Downstream = Annotated[
    bool,
    typer.Option(
        "--downstream",
        help="Include jobs with the same data time whose definitions depend on the selected ones.",
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show what would happen to each job, without changing it.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation prompt.")]

# Changes, and waiting for them

Force = Annotated[bool, typer.Option("--force", help="Override the safety check.")]
Reason = Annotated[
    str,
    typer.Option(
        "--reason", metavar="TEXT", show_default=False, help="Reason, recorded in the notes and the history."
    ),
]
SuspensionReason = Annotated[
    str,
    typer.Option(
        "--reason",
        metavar="TEXT",
        show_default=False,
        help="Reason. The reason of a suspension is shown to the affected users.",
    ),
]
Run = Annotated[
    int | None,
    typer.Option(
        "--run",
        metavar="N",
        min=1,
        show_default="the current run",
        help="Show an earlier run, from before a rerun.",
    ),
]
Param = Annotated[
    list[str] | None,
    typer.Option("--param", metavar="NAME=VALUE", show_default=False, help="Job parameter. Repeatable."),
]
Wait = Annotated[bool, typer.Option("--wait", help="Wait for the job to end. Exits with code 4 if it fails.")]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=0,
        show_default=False,
        help="Stop waiting after this many seconds and exit with code 5. The work itself continues.",
    ),
]
DataTime = Annotated[
    Moment | None,
    typer.Option(
        "--data-time",
        metavar="TIME",
        parser=parse_moment,
        show_default=False,
        help="Time that the job is for; dependent jobs have the same. A date means 00:00 UTC.",
    ),
]
After = Annotated[
    Moment | None,
    typer.Option(
        "--after",
        metavar="TIME",
        parser=parse_moment,
        show_default=False,
        help="Start the job at TIME or later. A date means 00:00 UTC.",
    ),
]


def pass_to_subcommand(ctx: typer.Context, url: str | None, token: str | None, as_json: bool) -> None:
    """Apply shared options given before a subcommand to the subcommand."""
    shared = {"url": url, "token": token, "as_json": as_json}
    given = {name: value for name, value in shared.items() if value}
    ctx.default_map = {str(ctx.invoked_subcommand): given}


class Listing(TyperGroup):
    """A group that prints its list without a command; `list` prints it too, as in the other groups."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args[1:] if args[:1] == ["list"] else args)
