"""worker: run a pull worker on this machine."""

from __future__ import annotations

import os
import socket
import sys
import threading
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shardmill.cli import complete, output
from shardmill.cli.exits import OTHER
from shardmill.cli.options import Json, Token, Url
from shardmill.cli.registration import (
    Domain,
    InstanceId,
    InstanceType,
    Ip,
    Port,
    Proxy,
    Subclients,
    check_registration,
)
from shardmill.cli.render.worker_log import LogFormat, log_to_stderr
from shardmill.cli.worker_setup import check_task_user, direct_transport, http_transport

if TYPE_CHECKING:
    from shardmill.worker.pull_worker import PullWorker
    from shardmill.worker.run import Observer

Groups = Annotated[
    list[str],
    typer.Option(
        "--group",
        metavar="GROUP",
        help="Group to take tasks from. Repeatable.",
        autocompletion=complete.groups,
    ),
]
Slots = Annotated[
    int, typer.Option("--slots", metavar="N", min=1, max=1_000, help="Maximum number of concurrent tasks.")
]
WorkerName = Annotated[
    str | None,
    typer.Option(
        "--name",
        metavar="NAME",
        show_default=False,
        help="Unique name, kept across restarts. Default: host name and process ID.",
    ),
]
Apps = Annotated[
    list[str],
    typer.Option(
        "--app", metavar="COMMAND", help="Command that the worker can run; * means any. Repeatable."
    ),
]
Aws = Annotated[
    bool, typer.Option("--aws", help="Access AWS directly with AWS credentials instead of the HTTP API.")
]
Grace = Annotated[
    float,
    typer.Option("--grace", metavar="SECONDS", min=0, help="Time for running tasks to finish at shutdown."),
]
WorkDir = Annotated[
    Path | None,
    typer.Option(
        "--work-dir",
        metavar="DIR",
        exists=True,
        file_okay=False,
        show_default=False,
        help="Folder in which the work folders of tasks are created.",
    ),
]
CacheDir = Annotated[
    Path | None,
    typer.Option(
        "--cache-dir",
        metavar="DIR",
        file_okay=False,
        show_default="~/.cache/shardmill/predata",
        help="Folder for cached reference data (predata), shared by all workers on this machine.",
    ),
]
CacheMb = Annotated[
    int,
    typer.Option("--cache-mb", metavar="MB", min=0, help="Maximum size of the cache. 0 disables it."),
]
KeepWork = Annotated[bool, typer.Option("--keep-work", help="Keep the work folders of finished tasks.")]
Once = Annotated[bool, typer.Option("--once", help="Exit when no more tasks are available.")]
MaxTasks = Annotated[
    int | None,
    typer.Option("--max-tasks", metavar="N", min=1, show_default=False, help="Exit after this many tasks."),
]

MaxLoad = Annotated[
    float | None,
    typer.Option(
        "--max-load",
        metavar="LOAD",
        min=0,
        show_default=False,
        help="Reject tasks while the one-minute load average is higher.",
    ),
]
MinDisk = Annotated[
    int | None,
    typer.Option(
        "--min-disk",
        metavar="MB",
        min=0,
        show_default=False,
        help="Reject tasks while the work folder's disk has less free space.",
    ),
]
SwitchUser = Annotated[
    bool,
    typer.Option(
        "--switch-user", help="Run each task as its executeUser; requires the permission to switch users."
    ),
]
TaskUser = Annotated[
    str | None,
    typer.Option(
        "--task-user",
        metavar="USER",
        show_default=False,
        help="Run tasks without an executeUser as this user, and none as the worker's own; requires root.",
    ),
]
AllowHosts = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-host",
        metavar="HOST",
        show_default=False,
        help="Host that http tasks may call and that files may be downloaded from by URL, such as "
        "api.example.com or *.example.com:8443. Repeatable.",
    ),
]
Format = Annotated[LogFormat, typer.Option("--log-format", help="Format of log lines on standard error.")]
MetricsPort = Annotated[
    int | None,
    typer.Option(
        "--metrics-port",
        metavar="N",
        min=0,
        max=65_535,
        show_default=False,
        help="Serve Prometheus metrics on this port of 127.0.0.1; 0 picks a free port.",
    ),
]


def _program(name: str, types: str) -> Any:
    return typer.Option(
        f"--{name}",
        metavar="PATH",
        envvar=f"SHARDMILL_{name.upper()}",
        show_default=False,
        help=f"Program for {types} tasks. Default: the one on PATH.",
    )


Java = Annotated[str | None, _program("java", "java")]
Hive = Annotated[str | None, _program("hive", "hive")]
Hadoop = Annotated[str | None, _program("hadoop", "mapreduce")]
Docker = Annotated[str | None, _program("docker", "docker")]


def worker(
    groups: Groups = ["default"],  # noqa: B006  typer copies it
    slots: Slots = 1,
    name: WorkerName = None,
    apps: Apps = ["*"],  # noqa: B006
    aws: Aws = False,
    grace: Grace = 10.0,
    work_dir: WorkDir = None,
    keep_work: KeepWork = False,
    cache_dir: CacheDir = None,
    cache_mb: CacheMb = 10_000,
    once: Once = False,
    max_tasks: MaxTasks = None,
    max_load: MaxLoad = None,
    min_disk: MinDisk = None,
    switch_user: SwitchUser = False,
    task_user: TaskUser = None,
    allow_hosts: AllowHosts = None,
    java: Java = None,
    hive: Hive = None,
    hadoop: Hadoop = None,
    docker: Docker = None,
    domain: Domain = None,
    instance_id: InstanceId = None,
    instance_type: InstanceType = None,
    ip: Ip = None,
    port: Port = None,
    proxy: Proxy = False,
    subclients: Subclients = None,
    log_format: Format = "text",
    metrics_port: MetricsPort = None,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Run a worker that takes tasks from worker groups.

    The worker takes, runs and reports tasks until Ctrl-C, SIGTERM or SIGHUP. Over HTTP it needs a token only;
    with --aws it needs AWS credentials and the SHARDMILL_… settings of the deployment. On a terminal it shows
    its running tasks; with --json it prints a line for each task that starts or ends.

    \b
    Examples:
      shardmill worker --group default --slots 4
      shardmill worker --group reports --group default --name host-17
      shardmill worker --group default --slots 8 --aws
      shardmill worker --slots 4 --max-load 6 --min-disk 500
      shardmill worker --allow-host '*.example.com' --log-format json --metrics-port 9464
    """
    from shardmill.cli.render.worker_tasks import JsonEvents
    from shardmill.worker.files.cache import Cache
    from shardmill.worker.machine import describe_instance
    from shardmill.worker.run import default_programs, run_worker
    from shardmill.worker.task.bounds import Limits

    name = name or f"{socket.gethostname()}-{os.getpid()}"
    given: dict[str, Any] = {
        "domain": domain,
        "instance_id": instance_id,
        "instance_type": instance_type,
        "ip": ip,
    }
    given |= {"port": port, "subclients": subclients, "proxy": proxy or subclients is not None}
    about = {field: value for field, value in given.items() if value is not None}
    check_registration(name, groups, apps, about)
    log_to_stderr(log_format)
    check_task_user(task_user)
    transport = direct_transport(token) if aws else http_transport(url, token)
    programs = {"java": java, "hive": hive, "hadoop": hadoop, "docker": docker}
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
        programs=default_programs(**{program: path for program, path in programs.items() if path}),
        limits=Limits(max_load, min_disk),
        switch_user=switch_user,
        task_user=task_user,
        allow_hosts=allow_hosts or (),
        cache=Cache(cache_dir or _default_cache(), cache_mb * 1_000_000) if cache_mb else None,
        about={**describe_instance(), **about},
        progress=JsonEvents(stop) if as_json else None,
        observers=_observers(metrics_port, live=log_format == "text" and not as_json and sys.stderr.isatty()),
        stop=stop,
    )
    raise typer.Exit(code)


def _default_cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "shardmill" / "predata"


def _observers(port: int | None, *, live: bool) -> list[Observer]:
    from shardmill.cli.render.worker_tasks import live_tasks

    metrics = [] if port is None else [partial(_metrics, port)]
    return [*metrics, live_tasks] if live else [*metrics]


def _metrics(port: int, worker: PullWorker) -> AbstractContextManager[object]:
    from shardmill.worker.metrics import Metrics

    try:
        metrics = Metrics(port, worker.figures)
    except OSError as error:
        output.message(
            f"cannot serve metrics on port {port}: {error.strerror}; choose another --metrics-port"
        )
        raise typer.Exit(OTHER) from None
    if "port" not in worker.registration.model_fields_set:
        worker.registration = worker.registration.model_copy(update={"port": metrics.port})
    return metrics
