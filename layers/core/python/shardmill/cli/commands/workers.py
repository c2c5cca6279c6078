"""workers, workers show, drain, suspend, resume, forget"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from shardmill.cli import output
from shardmill.cli.options import Force, Json, Token, Url, hand_down

if TYPE_CHECKING:
    from shardmill.client import Client
    from shardmill.model.worker import Worker

WorkerName = Annotated[str, typer.Argument(metavar="NAME", help="The name or the id of the worker.")]
Reason = Annotated[
    str | None,
    typer.Option(
        "--reason", metavar="TEXT", show_default=False, help="Why; it stands in the worker's notes."
    ),
]
OfGroup = Annotated[
    str | None, typer.Option("--group", metavar="GROUP", show_default=False, help="Only of this group.")
]
Status = Annotated[
    Literal["OFFLINE", "DRAINING", "DISCONNECTED", "ONLINE"] | None,
    typer.Option("--status", case_sensitive=False, show_default=False, help="Only of this status."),
]
Busy = Annotated[
    bool | None,
    typer.Option("--busy/--idle", show_default=False, help="Only those that hold tasks, or hold none."),
]
App = Annotated[
    str | None,
    typer.Option(
        "--app", metavar="COMMAND", show_default=False, help="Only those that can run this command."
    ),
]

COLUMNS: dict[str, Callable[[Worker], object]] = {
    "WORKER": lambda worker: worker.name,
    "GROUPS": lambda worker: worker.groups,
    "STATUS": lambda worker: worker.status.name,
    "DOING": lambda worker: worker.activity,
    "SLOTS": lambda worker: worker.slots,
    "TASKS": lambda worker: worker.remain_tasks,
    "DONE": lambda worker: worker.total_completed,
    "FAILED": lambda worker: worker.total_failed,
    "SEEN": lambda worker: worker.update_time,
}

app = typer.Typer(invoke_without_command=True)


@app.callback()
def workers(
    ctx: typer.Context,
    group: OfGroup = None,
    status: Status = None,
    busy: Busy = None,
    with_app: App = None,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """List the workers that have registered, or look after one.

    \b
    Examples:
      shardmill workers
      shardmill workers --group default --status ONLINE --idle
      shardmill workers --json | jq -r '.[] | select(.status == 3) | .name'
      shardmill workers show host-17
      shardmill workers suspend host-17 --reason 'new disk'
    """
    from shardmill.client import Client
    from shardmill.model.worker import WorkerStatus

    if ctx.invoked_subcommand:
        if (group, status, busy, with_app) != (None, None, None, None):
            raise typer.BadParameter(f"{ctx.invoked_subcommand} takes no filter; it is for the list only")
        hand_down(ctx, url, token, as_json)
        return
    with Client(url, token) as client:
        found = client.workers(group, WorkerStatus[status] if status else None, busy=busy, app=with_app)
        output.listing(found, COLUMNS, as_json)


@app.command()
def show(name: WorkerName, url: Url = None, token: Token = None, as_json: Json = False) -> None:
    """Show a worker and what it does.

    \b
    Examples:
      shardmill workers show host-17
      shardmill workers show host-17 --json | jq .currentWork
    """
    from shardmill.client import Client

    with Client(url, token) as client:
        found = client.find_worker(name)
    if as_json:
        output.json_document(found)
    else:
        _show(found)


@app.command()
def drain(
    name: WorkerName, reason: Reason = None, url: Url = None, token: Token = None, as_json: Json = False
) -> None:
    """Let a worker finish what it holds, take nothing new, and leave.

    \b
    Examples:
      shardmill workers drain host-17
      shardmill workers drain host-17 --reason 'new kernel'
    """
    from shardmill.client import Client

    with Client(url, token) as client:
        _tell(client.drain_worker(_id(client, name), reason), as_json)


@app.command()
def suspend(
    name: WorkerName, reason: Reason = None, url: Url = None, token: Token = None, as_json: Json = False
) -> None:
    """Let a worker take nothing new until it is resumed.

    What it holds it finishes.

    \b
    Examples:
      shardmill workers suspend host-17
      shardmill workers suspend host-17 --reason 'its disk is full'
    """
    from shardmill.client import Client

    with Client(url, token) as client:
        _tell(client.suspend_worker(_id(client, name), reason), as_json)


@app.command()
def resume(name: WorkerName, url: Url = None, token: Token = None, as_json: Json = False) -> None:
    """Let a worker take tasks again that was suspended, or drained and is still there.

    \b
    Examples:
      shardmill workers resume host-17
    """
    from shardmill.client import Client

    with Client(url, token) as client:
        _tell(client.resume_worker(_id(client, name)), as_json)


@app.command()
def forget(
    name: WorkerName, force: Force = False, url: Url = None, token: Token = None, as_json: Json = False
) -> None:
    """Remove a worker that is gone from the list.

    Refused unless it is OFFLINE or DISCONNECTED; with --force, a worker that lives ends.

    \b
    Examples:
      shardmill workers forget host-17
      shardmill workers forget host-17 --force
    """
    from shardmill.client import Client

    with Client(url, token) as client:
        found = client.find_worker(name)
        client.forget_worker(found.id, force=force)
    if as_json:
        output.json_document({"id": found.id, "name": found.name, "forgotten": True})
    else:
        output.line(f"worker {output.cell(found.name)} forgotten")


def _id(client: Client, name: str) -> str:
    return client.find_worker(name).id


def _tell(worker: Worker, as_json: bool) -> None:
    if as_json:
        output.json_document(worker)
    else:
        held = output.many(worker.remain_tasks, "task")
        output.line(f"{output.cell(worker.name)} {worker.status.name} {worker.activity}, holds {held}")


def _show(worker: Worker) -> None:
    name, status = output.paint(output.cell(worker.name), 1), output.paint_state(worker.status.name)
    output.line(f"{name} {status} {worker.activity}")
    where = f"{worker.host or 'an unknown host'}{f':{worker.port}' if worker.port else ''}"
    output.facts(
        {
            "id": f"{worker.id} (session {worker.session})",
            "groups": worker.groups,
            "where": f"{where}, {output.many(worker.cores, 'core')}",
            "user": worker.user,
            "domain": worker.domain,
            "instance": " ".join(filter(None, (worker.instance_id, worker.instance_type))),
            "proxy": f"for {worker.subclients} subclients" if worker.proxy else "",
            "apps": worker.apps,
            "slots": worker.slots,
            "tasks": f"{worker.total_checkout} taken, {worker.total_completed} done, "
            f"{worker.total_failed} failed, in {output.seconds(worker.compute_time)}",
            "serves": f"for {output.seconds(worker.serve_time)}, idle for {output.seconds(worker.idle_time)}",
            "seen": f"{output.cell(worker.update_time)}, beats every {worker.heartbeat_seconds} s",
            "notes": worker.notes,
            "holds": worker.current_work,
            "skips": worker.skip_work,
        }
    )
