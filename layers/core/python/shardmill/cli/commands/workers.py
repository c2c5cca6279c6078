"""workers: list, show, drain, suspend, resume and remove workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from shardmill.cli import complete, output
from shardmill.cli.options import Force, Json, Listing, Token, Url, pass_to_subcommand
from shardmill.cli.watch import Watch, show_list

if TYPE_CHECKING:
    from shardmill.client.client import Client
    from shardmill.model.worker import Worker

WorkerName = Annotated[
    str, typer.Argument(metavar="NAME", help="Name or ID of the worker.", autocompletion=complete.workers)
]
NotesReason = Annotated[
    str | None,
    typer.Option(
        "--reason", metavar="TEXT", show_default=False, help="Reason, recorded in the worker's notes."
    ),
]
OfGroup = Annotated[
    str | None,
    typer.Option(
        "--group",
        metavar="GROUP",
        show_default=False,
        help="List workers of this group only.",
        autocompletion=complete.groups,
    ),
]
Status = Annotated[
    Literal["OFFLINE", "DRAINING", "DISCONNECTED", "ONLINE"] | None,
    typer.Option(
        "--status", case_sensitive=False, show_default=False, help="List workers with this status only."
    ),
]
Busy = Annotated[
    bool | None,
    typer.Option("--busy/--idle", show_default=False, help="List workers with or without tasks only."),
]
App = Annotated[
    str | None,
    typer.Option(
        "--app", metavar="COMMAND", show_default=False, help="List workers that can run this command only."
    ),
]

COLUMNS: dict[str, Callable[[Worker], object]] = {
    "WORKER": lambda worker: worker.name,
    "GROUPS": lambda worker: worker.groups,
    "STATUS": lambda worker: worker.status.name,
    "ACTIVITY": lambda worker: worker.activity,
    "SLOTS": lambda worker: worker.slots,
    "TASKS": lambda worker: worker.remain_tasks,
    "DONE": lambda worker: worker.total_completed,
    "FAILED": lambda worker: worker.total_failed,
    "LAST SEEN": lambda worker: worker.update_time,
}

app = typer.Typer(cls=Listing, invoke_without_command=True)


@app.callback()
def workers(
    ctx: typer.Context,
    group: OfGroup = None,
    status: Status = None,
    busy: Busy = None,
    with_app: App = None,
    watch: Watch = False,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """List the registered workers, or manage one.

    \b
    Examples:
      shardmill workers
      shardmill workers --group default --status ONLINE --idle
      shardmill workers --json | jq -r '.[] | select(.status == 3) | .name'
      shardmill workers --busy --watch
      shardmill workers show host-17
      shardmill workers suspend host-17 --reason 'new disk'
    """
    from shardmill.client.client import Client
    from shardmill.model.worker import WorkerStatus

    if ctx.invoked_subcommand:
        if (group, status, busy, with_app) != (None, None, None, None):
            raise typer.BadParameter(f"{ctx.invoked_subcommand} takes no filter; it is for the list only")
        pass_to_subcommand(ctx, url, token, as_json)
        return
    with Client(url, token) as client:
        wanted = WorkerStatus[status] if status else None
        show_list(lambda: client.workers(group, wanted, busy=busy, app=with_app), COLUMNS, as_json, watch)


@app.command()
def show(name: WorkerName, url: Url = None, token: Token = None, as_json: Json = False) -> None:
    """Show a worker and its current tasks.

    \b
    Examples:
      shardmill workers show host-17
      shardmill workers show host-17 --json | jq .currentWork
    """
    from shardmill.client.client import Client

    with Client(url, token) as client:
        found = client.find_worker(name)
    if as_json:
        output.json_document(found)
    else:
        _show(found)


@app.command()
def drain(
    name: WorkerName, reason: NotesReason = None, url: Url = None, token: Token = None, as_json: Json = False
) -> None:
    """Drain a worker: it finishes its tasks, takes no new ones and exits.

    \b
    Examples:
      shardmill workers drain host-17
      shardmill workers drain host-17 --reason 'new kernel'
    """
    from shardmill.client.client import Client

    with Client(url, token) as client:
        _show_status(client.drain_worker(_id(client, name), reason), as_json)


@app.command()
def suspend(
    name: WorkerName, reason: NotesReason = None, url: Url = None, token: Token = None, as_json: Json = False
) -> None:
    """Suspend a worker: it takes no new tasks until it is resumed.

    It finishes the tasks that it has.

    \b
    Examples:
      shardmill workers suspend host-17
      shardmill workers suspend host-17 --reason 'disk full'
    """
    from shardmill.client.client import Client

    with Client(url, token) as client:
        _show_status(client.suspend_worker(_id(client, name), reason), as_json)


@app.command()
def resume(name: WorkerName, url: Url = None, token: Token = None, as_json: Json = False) -> None:
    """Resume a suspended or draining worker.

    \b
    Examples:
      shardmill workers resume host-17
    """
    from shardmill.client.client import Client

    with Client(url, token) as client:
        _show_status(client.resume_worker(_id(client, name)), as_json)


@app.command()
def forget(
    name: WorkerName, force: Force = False, url: Url = None, token: Token = None, as_json: Json = False
) -> None:
    """Remove a worker from the list.

    Fails unless the worker is OFFLINE or DISCONNECTED. With --force, a worker that is still running exits.

    \b
    Examples:
      shardmill workers forget host-17
      shardmill workers forget host-17 --force
    """
    from shardmill.client.client import Client

    with Client(url, token) as client:
        found = client.find_worker(name)
        client.forget_worker(found.id, force=force)
    if as_json:
        output.json_document({"id": found.id, "name": found.name, "forgotten": True})
    else:
        output.line(f"worker {output.cell(found.name)} forgotten")


def _id(client: Client, name: str) -> str:
    return client.find_worker(name).id


def _show_status(worker: Worker, as_json: bool) -> None:
    if as_json:
        output.json_document(worker)
    else:
        tasks = output.plural(worker.remain_tasks, "task")
        output.line(f"{output.cell(worker.name)} {worker.status.name} {worker.activity}, holds {tasks}")


def _show(worker: Worker) -> None:
    name, status = output.paint(output.cell(worker.name), 1), output.paint_state(worker.status.name)
    output.line(f"{name} {status} {worker.activity}")
    port = f":{worker.port}" if worker.port else ""
    seen = f", seen from {worker.source_ip}" if worker.source_ip not in (None, worker.ip) else ""
    output.details(
        {
            "id": f"{worker.id} (session {worker.session})",
            "groups": worker.groups,
            "host": f"{worker.host or 'unknown host'}{port}, {output.plural(worker.cores, 'core')}",
            "address": f"{worker.ip}{seen}" if worker.ip else "",
            "user": worker.user,
            "domain": worker.domain,
            "instance": " ".join(filter(None, (worker.instance_id, worker.instance_type))),
            "proxy": f"for {worker.subclients} subclients" if worker.proxy else "",
            "apps": worker.apps,
            "slots": worker.slots,
            "tasks": f"{worker.total_checkout} taken, {worker.total_completed} done, "
            f"{worker.total_failed} failed, in {output.seconds(worker.compute_time)}",
            "uptime": f"{output.seconds(worker.serve_time)}, idle for {output.seconds(worker.idle_time)}",
            "last seen": f"{output.cell(worker.update_time)}, heartbeat every {worker.heartbeat_seconds} s",
            "notes": worker.notes,
            "running": worker.current_work,
            "skip list": worker.skip_work,
        }
    )
