"""groups, groups add, groups remove"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from shardmill.cli import output
from shardmill.cli.options import Json, Token, Url

if TYPE_CHECKING:
    from shardmill.model.worker import WorkerGroup

GroupName = Annotated[str, typer.Argument(metavar="NAME", help="The name of the group.")]
LeaseSeconds = Annotated[
    int | None,
    typer.Option(
        "--lease-seconds",
        metavar="N",
        min=10,
        max=43_200,
        show_default="60",
        help="How long a silent worker keeps its tasks.",
    ),
]

_COLUMNS: dict[str, Callable[[WorkerGroup], object]] = {
    "GROUP": lambda group: group.name,
    "KIND": lambda group: group.kind,
    "LEASE SECONDS": lambda group: group.lease_seconds,
    "TYPES": lambda group: group.types,
    "CREATED": lambda group: group.create_time,
}

app = typer.Typer(invoke_without_command=True)


@app.callback()
def groups(ctx: typer.Context, url: Url = None, token: Token = None, as_json: Json = False) -> None:
    """List the worker groups, or add and remove one.

    \b
    Examples:
      shardmill groups
      shardmill groups add reports --lease-seconds 300
      shardmill groups remove reports
    """
    from shardmill.client import Client

    if ctx.invoked_subcommand:
        shared = {"url": url, "token": token, "as_json": as_json}
        ctx.default_map = {ctx.invoked_subcommand: {name: value for name, value in shared.items() if value}}
        return
    with Client(url, token) as client:
        output.listing(client.groups(), _COLUMNS, as_json)


@app.command()
def add(
    name: GroupName,
    lease_seconds: LeaseSeconds = None,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Make a worker group and its queues.

    If there is one of this name, its lease time is changed.

    \b
    Examples:
      shardmill groups add reports
      shardmill groups add reports --lease-seconds 300
    """
    from shardmill.client import Client

    with Client(url, token) as client:
        group = client.create_group(name, lease_seconds=lease_seconds)
    if as_json:
        output.json_document(group)
    else:
        output.line(f"group {group.name}: {group.kind}, leases of {group.lease_seconds} s")


@app.command()
def remove(name: GroupName, url: Url = None, token: Token = None, as_json: Json = False) -> None:
    """Remove a worker group and its queues.

    \b
    Examples:
      shardmill groups remove reports
    """
    from shardmill.client import Client

    with Client(url, token) as client:
        client.delete_group(name)
    if as_json:
        output.json_document({"name": name, "removed": True})
    else:
        output.line(f"group {name} removed")
