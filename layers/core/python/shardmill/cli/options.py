"""The options that many commands share."""

from __future__ import annotations

from typing import Annotated

import typer

Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        envvar="SHARDMILL_URL",
        show_default=False,
        help="Address of the API; without it, the running `shardmill dev`.",
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        "--token", metavar="TOKEN", envvar="SHARDMILL_TOKEN", show_default=False, help="The bearer token."
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Even if that is refused otherwise.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
JobName = Annotated[str, typer.Argument(metavar="JOB", help="The name of the definition.")]
Trigger = Annotated[str, typer.Argument(metavar="TRIGGER", help="The trigger of the run.")]
ScheduleId = Annotated[str, typer.Argument(metavar="ID", help="The name of the schedule.")]
StepName = Annotated[str, typer.Argument(metavar="STEP", help="The name of the step.")]
OfJob = Annotated[
    str | None, typer.Option("--job", metavar="JOB", show_default=False, help="Only of this definition.")
]
Run = Annotated[
    int | None,
    typer.Option(
        "--run", metavar="N", min=1, show_default="the present", help="An earlier run, before a rerun."
    ),
]
Reason = Annotated[
    str,
    typer.Option(
        "--reason", metavar="TEXT", show_default=False, help="Why; the notes and the history say it."
    ),
]
HoldReason = Annotated[
    str,
    typer.Option(
        "--reason", metavar="TEXT", show_default=False, help="Why; whoever has to wait is told of it."
    ),
]
Param = Annotated[
    list[str] | None,
    typer.Option("--param", metavar="NAME=VALUE", show_default=False, help="A parameter; repeatable."),
]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until it has ended; exit code 4 if it failed.")]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=0,
        show_default=False,
        help="Stop waiting after this time (exit code 5); what was started goes on.",
    ),
]


def hand_down(ctx: typer.Context, url: str | None, token: str | None, as_json: bool) -> None:
    """What stands before a subcommand counts for it."""
    shared = {"url": url, "token": token, "as_json": as_json}
    given = {name: value for name, value in shared.items() if value}
    ctx.default_map = {str(ctx.invoked_subcommand): given}
