"""definitions, definitions suspend, resume"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

from shardmill.cli import output
from shardmill.cli.options import HoldReason, JobName, Json, Token, Url, hand_down

if TYPE_CHECKING:
    from shardmill.model.definition import ListedDefine, SavedDefine


def _described(listed: ListedDefine) -> str:
    """Those that are suspended say so before anything else."""
    held = f"({listed.suspended})" if listed.suspended else ""
    return " ".join(filter(None, (held, listed.description)))


_COLUMNS: dict[str, Callable[[ListedDefine], object]] = {
    "JOB": lambda listed: listed.job_name,
    "VERSION": lambda listed: listed.version,
    "STEPS": lambda listed: listed.step_count,
    "UPDATED": lambda listed: listed.update_time,
    "BY": lambda listed: listed.update_user,
    "DESCRIPTION": _described,
}

app = typer.Typer(invoke_without_command=True)


@app.callback()
def definitions(ctx: typer.Context, url: Url = None, token: Token = None, as_json: Json = False) -> None:
    """List the saved definitions, or suspend or resume one.

    The description of one that is suspended begins with who did that and why.

    \b
    Examples:
      shardmill definitions
      shardmill definitions --json | jq -r '.[] | select(.suspended) | .jobName'
      shardmill definitions suspend balance-report --reason 'the source is wrong'
    """
    from shardmill.client import Client

    if ctx.invoked_subcommand:
        hand_down(ctx, url, token, as_json)
        return
    with Client(url, token) as client:
        output.listing(client.definitions(), _COLUMNS, as_json)


@app.command()
def suspend(
    job_name: JobName, reason: HoldReason = "", url: Url = None, token: Token = None, as_json: Json = False
) -> None:
    """Let no new Jobs of a definition start.

    Those that are there go on. Its schedules wait, and follow their catchUp when it is resumed.

    \b
    Examples:
      shardmill definitions suspend balance-report
      shardmill definitions suspend balance-report --reason 'the source is wrong'
    """
    from shardmill.client import Client

    with Client(url, token) as client:
        _tell(client.suspend_definition(job_name, reason), as_json)


@app.command()
def resume(
    job_name: JobName, reason: HoldReason = "", url: Url = None, token: Token = None, as_json: Json = False
) -> None:
    """Let Jobs of a definition start again.

    What its schedules missed they deal with as their catchUp says; what its parents started meanwhile, too.

    \b
    Examples:
      shardmill definitions resume balance-report
    """
    from shardmill.client import Client

    with Client(url, token) as client:
        _tell(client.resume_definition(job_name, reason), as_json)


def _tell(saved: SavedDefine, as_json: bool) -> None:
    if as_json:
        output.json_document(saved)
    else:
        output.line(f"{saved.job_name} version {saved.version} {output.cell(saved.suspended or 'resumed')}")
