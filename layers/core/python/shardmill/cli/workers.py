"""worker, workers"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shardmill.cli import output
from shardmill.cli.exits import OTHER
from shardmill.cli.options import Json, Token, Url

if TYPE_CHECKING:
    from shardmill.model.worker import Lease, Result, Worker
    from shardmill.worker.transport import Transport

Groups = Annotated[
    list[str], typer.Option("--group", metavar="GROUP", help="A group whose tasks it takes; repeatable.")
]
Slots = Annotated[
    int, typer.Option("--slots", metavar="N", min=1, max=10_000, help="How many tasks it runs at a time.")
]
OwnName = Annotated[
    str | None,
    typer.Option(
        "--name",
        metavar="NAME",
        show_default=False,
        help="Its name, unique and kept over restarts; without it, made of host and process.",
    ),
]
Apps = Annotated[
    list[str], typer.Option("--app", metavar="COMMAND", help="A command it can run, * for any; repeatable.")
]
Aws = Annotated[
    bool, typer.Option("--aws", help="Straight to AWS with its own credentials, instead of over HTTP.")
]
Grace = Annotated[
    float,
    typer.Option(
        "--grace", metavar="SECONDS", min=0, help="Time for running tasks to end when it is stopped."
    ),
]
WorkDir = Annotated[
    Path | None,
    typer.Option(
        "--work-dir",
        metavar="DIR",
        exists=True,
        file_okay=False,
        show_default=False,
        help="Where the work folders of tasks are made.",
    ),
]
KeepWork = Annotated[bool, typer.Option("--keep-work", help="Keep the work folders of tasks.")]
Once = Annotated[bool, typer.Option("--once", help="Stop when there is nothing to do.")]
MaxTasks = Annotated[
    int | None,
    typer.Option("--max-tasks", metavar="N", min=1, show_default=False, help="Stop after so many tasks."),
]

_COLUMNS: dict[str, Callable[[Worker], object]] = {
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


def worker(
    groups: Groups = ["default"],  # noqa: B006  typer copies it
    slots: Slots = 1,
    name: OwnName = None,
    apps: Apps = ["*"],  # noqa: B006
    aws: Aws = False,
    grace: Grace = 10.0,
    work_dir: WorkDir = None,
    keep_work: KeepWork = False,
    once: Once = False,
    max_tasks: MaxTasks = None,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Run tasks of worker groups.

    Takes them, runs them and reports, until Ctrl-C or SIGTERM. Over HTTP it needs a token and nothing else;
    with --aws, AWS credentials and the SHARDMILL_… settings of the deployment. With --json, one line for each
    task that starts or ends.

    \b
    Examples:
      shardmill worker --group default --slots 4
      shardmill worker --group reports --group default --name host-17
      shardmill worker --group default --slots 8 --aws
    """
    from shardmill.worker.loop import run_worker

    name = name or f"{socket.gethostname()}-{os.getpid()}"
    _check(name, groups, apps)
    transport = _direct() if aws else _over_http(url, token)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    for noisy in ("httpx", "botocore", "boto3", "urllib3"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    stop = threading.Event()
    code = run_worker(
        groups,
        slots,
        transport,
        name=name,
        apps=tuple(apps),
        grace_seconds=grace,
        keep_work=keep_work,
        work_root=work_dir,
        once=once,
        max_tasks=max_tasks,
        progress=_Lines(stop) if as_json else None,
        stop=stop,
    )
    raise typer.Exit(code)


def _check(name: str, groups: list[str], apps: list[str]) -> None:
    from pydantic import ValidationError

    from shardmill.model.worker import Registration

    try:
        Registration(name=name, groups=groups, apps=apps)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        option = {"groups": "--group", "apps": "--app"}.get(str(first["loc"][0]), "--name")
        raise typer.BadParameter(first["msg"], param_hint=option) from None


class _Lines:
    """A JSON line for everything that happens to a task; when nobody reads them, the worker stops."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._lock = threading.Lock()

    def __call__(self, event: str, lease: Lease, result: Result | None) -> None:
        said = {
            "event": event,
            "taskId": lease.task_id,
            "attempt": lease.attempt,
            "jobName": lease.job_name,
            "trigger": lease.trigger,
            "stepName": lease.step_name,
            "index": lease.sharding.index,
        }
        if result:
            said |= {"outcome": result.outcome, "exitCode": result.exit_code, "reason": result.reason}
        with self._lock:
            try:
                output.json_line(said)
            except BrokenPipeError:
                self._stop.set()


def _over_http(url: str | None, token: str | None) -> Transport:
    from shardmill.client.connection import connection
    from shardmill.worker.http import HttpTransport

    found = connection(url, token)
    return HttpTransport(found.url, found.token)


def _direct() -> Transport:
    """By the settings in the environment, or those of the running `dev`."""
    from shardmill.aws.settings import SettingMissing, Settings
    from shardmill.local.session import find_session
    from shardmill.worker.direct import DirectTransport

    if "SHARDMILL_TABLE" not in os.environ and (session := find_session()):
        os.environ.update(session.environ())
    try:
        return DirectTransport(Settings.from_environment())
    except SettingMissing as error:
        output.message(str(error))
        raise typer.Exit(OTHER) from None


def workers(url: Url = None, token: Token = None, as_json: Json = False) -> None:
    """List the workers that have registered.

    \b
    Examples:
      shardmill workers
      shardmill workers --json | jq -r '.[] | select(.status == 3) | .name'
    """
    from shardmill.client import Client

    with Client(url, token) as client:
        output.listing(client.workers(), _COLUMNS, as_json)
