"""groups: list, show, create, change, suspend and remove worker groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import typer

from shardmill.cli import complete, output
from shardmill.cli.options import Force, Json, Listing, SuspensionReason, Token, Url, pass_to_subcommand
from shardmill.cli.watch import Watch, show_list

if TYPE_CHECKING:
    from shardmill.model.definition.field_types import StepType
    from shardmill.model.groups.group import WorkerGroup

GroupName = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the group.", autocompletion=complete.groups)
]
OptionalGroupName = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME", show_default=False, help="Name of the group.", autocompletion=complete.groups
    ),
]
AllGroups = Annotated[bool, typer.Option("--all", help="Apply to all groups, including future ones.")]
LeaseSeconds = Annotated[
    int | None,
    typer.Option(
        "--lease-seconds",
        metavar="N",
        min=10,
        max=43_200,
        show_default="60; lambda: 900",
        help="Seconds until the tasks of an unresponsive worker are taken away.",
    ),
]
Kind = Annotated[
    Literal["pull", "lambda"] | None,
    typer.Option(
        "--kind",
        show_default="pull",
        help="What runs its tasks: workers that pull them, or an AWS Lambda function.",
    ),
]
Types = Annotated[
    list[str] | None,
    typer.Option(
        "--type",
        metavar="TYPE",
        show_default=False,
        help="Step type that runs in this group unless the step names a group. Repeatable; '' removes all.",
    ),
]

_COLUMNS: dict[str, Callable[[WorkerGroup], object]] = {
    "GROUP": lambda group: group.name,
    "KIND": lambda group: group.kind,
    "LEASE SECONDS": lambda group: group.lease_seconds,
    "TYPES": lambda group: group.types,
    "CREATED": lambda group: group.create_time,
    "SUSPENDED": lambda group: group.suspended and group.suspended.removeprefix("suspended "),
}

app = typer.Typer(cls=Listing, invoke_without_command=True)


@app.callback()
def groups(
    ctx: typer.Context,
    watch: Watch = False,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """List the worker groups, or manage one.

    \b
    Examples:
      shardmill groups
      shardmill groups --watch
      shardmill groups show default
      shardmill groups add reports --lease-seconds 300
      shardmill groups add reports --type hive
      shardmill groups suspend reports --reason maintenance
      shardmill groups remove reports
    """
    from shardmill.client.client import Client

    if ctx.invoked_subcommand:
        pass_to_subcommand(ctx, url, token, as_json)
        return
    with Client(url, token) as client:
        show_list(client.groups, _COLUMNS, as_json, watch)


@app.command()
def show(name: GroupName, url: Url = None, token: Token = None, as_json: Json = False) -> None:
    """Show a worker group and its workers.

    \b
    Examples:
      shardmill groups show reports
      shardmill groups show reports --json
    """
    from shardmill.cli.commands.workers import COLUMNS
    from shardmill.client.client import Client

    with Client(url, token) as client:
        group = client.group(name)
        if as_json:
            output.json_document(group)
            return
        output.line(_summary(group))
        output.line()
        output.listing(client.workers(group.name), COLUMNS, as_json=False)


@app.command()
def add(
    name: GroupName,
    kind: Kind = None,
    lease_seconds: LeaseSeconds = None,
    types: Types = None,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Create a worker group and its queues, or change an existing one.

    For an existing group, only the given settings change. The kind of a group cannot be changed.

    \b
    Examples:
      shardmill groups add reports
      shardmill groups add reports --lease-seconds 300 --type hive --type mapreduce
      shardmill groups add quick --kind lambda
    """
    from shardmill.client.client import Client

    bound = _step_types(types)
    with Client(url, token) as client:
        _show(client.create_group(name, kind=kind, lease_seconds=lease_seconds, types=bound), as_json)


@app.command()
def suspend(
    name: OptionalGroupName = None,
    everything: AllGroups = False,
    reason: SuspensionReason = "",
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Suspend a worker group, or all groups.

    Workers take no more tasks of a suspended group. Running tasks finish, and queued tasks stay queued. New
    jobs are still accepted.

    \b
    Examples:
      shardmill groups suspend reports --reason maintenance
      shardmill groups suspend --all --reason 'network outage'
    """
    from shardmill.client.client import Client

    _require_name_or_all(name, everything)
    with Client(url, token) as client:
        if name is None:
            client.suspend_all_groups(reason)
            _show_all(True, as_json)
        else:
            _show(client.suspend_group(name, reason), as_json)


@app.command()
def resume(
    name: OptionalGroupName = None,
    everything: AllGroups = False,
    reason: SuspensionReason = "",
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Resume a suspended worker group, or all groups.

    The two suspensions are independent: --all ends a suspension of all groups, but not of groups that were
    suspended by name. A group resumed by name stays suspended while all groups are suspended.

    \b
    Examples:
      shardmill groups resume reports
      shardmill groups resume --all
    """
    from shardmill.client.client import Client

    _require_name_or_all(name, everything)
    with Client(url, token) as client:
        if name is None:
            client.resume_all_groups(reason)
            _show_all(False, as_json)
        else:
            _show(client.resume_group(name, reason), as_json)


@app.command()
def remove(
    name: GroupName, force: Force = False, url: Url = None, token: Token = None, as_json: Json = False
) -> None:
    """Remove a worker group and its queues.

    Fails while jobs need the group, unless --force is given; their steps then fail.

    \b
    Examples:
      shardmill groups remove reports
      shardmill groups remove reports --force
    """
    from shardmill.client.client import Client

    with Client(url, token) as client:
        client.delete_group(name, force=force)
    if as_json:
        output.json_document({"name": name, "removed": True})
    else:
        output.line(f"group {name} removed")


def _show(group: WorkerGroup, as_json: bool) -> None:
    if as_json:
        output.json_document(group)
    else:
        output.line(_summary(group))


def _show_all(suspended: bool, as_json: bool) -> None:
    if as_json:
        output.json_document({"all": True, "suspended": suspended})
    else:
        output.line(f"all groups {'suspended' if suspended else 'resumed'}")


def _require_name_or_all(name: str | None, everything: bool) -> None:
    if everything == (name is not None):
        raise typer.BadParameter("give either the NAME of a group or --all")


def _summary(group: WorkerGroup) -> str:
    types = f", types {', '.join(group.types)}" if group.types else ""
    suspended = f", {output.cell(group.suspended)}" if group.suspended else ""
    return f"group {group.name}: {group.kind}, lease {group.lease_seconds} s{types}{suspended}"


def _step_types(given: list[str] | None) -> list[StepType] | None:
    from shardmill.model.definition.field_types import StepType

    known: dict[str, StepType] = {each: each for each in get_args(StepType)}
    for name in filter(None, given or ()):
        if name not in known:
            raise typer.BadParameter(f"{name!r} must be one of {', '.join(known)}", param_hint="--type")
    return [known[name] for name in given if name] if given else None
