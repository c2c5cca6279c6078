"""groups, groups show, add, suspend, resume, remove"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from shardmill.cli import output
from shardmill.cli.options import Force, HoldReason, Json, Token, Url, hand_down

if TYPE_CHECKING:
    from shardmill.model.definition.fields import StepType
    from shardmill.model.worker import WorkerGroup

GroupName = Annotated[str, typer.Argument(metavar="NAME", help="The name of the group.")]
OneName = Annotated[
    str | None, typer.Argument(metavar="NAME", show_default=False, help="The name of the group.")
]
Everything = Annotated[bool, typer.Option("--all", help="All groups, also those that are made later.")]
LeaseSeconds = Annotated[
    int | None,
    typer.Option(
        "--lease-seconds",
        metavar="N",
        min=10,
        max=43_200,
        show_default="60; lambda: 900",
        help="How long a silent worker keeps its tasks.",
    ),
]
Kind = Annotated[
    Literal["pull", "lambda"] | None,
    typer.Option(
        "--kind", show_default="pull", help="Who serves it: workers that pull, or a function of AWS Lambda."
    ),
]
Types = Annotated[
    list[str] | None,
    typer.Option(
        "--type",
        metavar="TYPE",
        show_default=False,
        help="A step type bound to it: such steps go to it if they name no group; repeatable, '' for none.",
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

app = typer.Typer(invoke_without_command=True)


@app.callback()
def groups(ctx: typer.Context, url: Url = None, token: Token = None, as_json: Json = False) -> None:
    """List the worker groups, or look after one; add also changes one that is there.

    \b
    Examples:
      shardmill groups
      shardmill groups show default
      shardmill groups add reports --lease-seconds 300
      shardmill groups add reports --lease-seconds 60
      shardmill groups suspend reports --reason maintenance
      shardmill groups remove reports
    """
    from shardmill.client import Client

    if ctx.invoked_subcommand:
        hand_down(ctx, url, token, as_json)
        return
    with Client(url, token) as client:
        output.listing(client.groups(), _COLUMNS, as_json)


@app.command()
def show(name: GroupName, url: Url = None, token: Token = None, as_json: Json = False) -> None:
    """Show a worker group and its workers.

    \b
    Examples:
      shardmill groups show reports
      shardmill groups show reports --json
    """
    from shardmill.cli.commands.workers import COLUMNS
    from shardmill.client import Client

    with Client(url, token) as client:
        group = client.group(name)
        if as_json:
            output.json_document(group)
            return
        output.line(_told(group))
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
    """Make a worker group and its queues, or change one.

    If there is one of this name, what is given is changed; its kind never is.

    \b
    Examples:
      shardmill groups add reports
      shardmill groups add reports --lease-seconds 300 --type hive --type mapreduce
      shardmill groups add quick --kind lambda
    """
    from shardmill.client import Client

    bound = _step_types(types)
    with Client(url, token) as client:
        _tell(client.create_group(name, kind=kind, lease_seconds=lease_seconds, types=bound), as_json)


def _tell(group: WorkerGroup, as_json: bool) -> None:
    if as_json:
        output.json_document(group)
    else:
        output.line(_told(group))


def _tell_all(suspended: bool, as_json: bool) -> None:
    if as_json:
        output.json_document({"all": True, "suspended": suspended})
    else:
        output.line(f"all groups {'suspended' if suspended else 'resumed'}")


def _check_one(name: str | None, everything: bool) -> None:
    if everything == (name is not None):
        raise typer.BadParameter("give either the NAME of a group or --all")


def _told(group: WorkerGroup) -> str:
    types = f", bound to {', '.join(group.types)}" if group.types else ""
    held = f", {output.cell(group.suspended)}" if group.suspended else ""
    return f"group {group.name}: {group.kind}, leases of {group.lease_seconds} s{types}{held}"


def _step_types(given: list[str] | None) -> list[StepType] | None:
    from typing import get_args

    from shardmill.model.definition.fields import StepType

    known: dict[str, StepType] = {each: each for each in get_args(StepType)}
    for name in filter(None, given or ()):
        if name not in known:
            raise typer.BadParameter(f"{name!r} is none of {', '.join(known)}", param_hint="--type")
    return [known[name] for name in given if name] if given else None


@app.command()
def suspend(
    name: OneName = None,
    everything: Everything = False,
    reason: HoldReason = "",
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Let nobody take tasks of a worker group, or of any.

    Tasks that run go on to their end; those that wait stay in their queues. New Jobs are accepted.

    \b
    Examples:
      shardmill groups suspend reports --reason maintenance
      shardmill groups suspend --all --reason 'fire drill'
    """
    from shardmill.client import Client

    _check_one(name, everything)
    with Client(url, token) as client:
        if name is None:
            client.suspend_all_groups(reason)
            _tell_all(True, as_json)
        else:
            _tell(client.suspend_group(name, reason), as_json)


@app.command()
def resume(
    name: OneName = None,
    everything: Everything = False,
    reason: HoldReason = "",
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Let tasks of a worker group be taken again, or, after suspend --all, of all.

    A group that was suspended by itself stays so with --all; one that is resumed by itself goes on only when
    all are.

    \b
    Examples:
      shardmill groups resume reports
      shardmill groups resume --all
    """
    from shardmill.client import Client

    _check_one(name, everything)
    with Client(url, token) as client:
        if name is None:
            client.resume_all_groups(reason)
            _tell_all(False, as_json)
        else:
            _tell(client.resume_group(name, reason), as_json)


@app.command()
def remove(
    name: GroupName, force: Force = False, url: Url = None, token: Token = None, as_json: Json = False
) -> None:
    """Remove a worker group and its queues.

    Refused while Jobs need it, unless forced.

    \b
    Examples:
      shardmill groups remove reports
      shardmill groups remove reports --force
    """
    from shardmill.client import Client

    with Client(url, token) as client:
        client.delete_group(name, force=force)
    if as_json:
        output.json_document({"name": name, "removed": True})
    else:
        output.line(f"group {name} removed")
