"""dev, demo: run Shardmill on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shardmill.cli.options import Json

Port = Annotated[
    int | None,
    typer.Option(
        "--port",
        metavar="N",
        min=1,
        max=65_535,
        show_default=False,
        help="Port on loopback. Default: the port of the last start, else 7700 or the next free port.",
    ),
]
State = Annotated[
    Path | None,
    typer.Option(
        "--state",
        metavar="DIR",
        show_default=False,
        help="Folder for the state. Default: .shardmill.",
    ),
]
Workers = Annotated[
    int,
    typer.Option(
        "--workers",
        metavar="N",
        min=0,
        max=64,
        help="Number of workers to start for the group default, with 4 slots each.",
    ),
]
JsonReady = Annotated[bool, typer.Option("--json", help="Print a line of JSON when ready.")]


def dev(port: Port = None, state: State = None, workers: Workers = 1, as_json: JsonReady = False) -> None:
    """Run Shardmill on this machine.

    Starts an AWS emulator on loopback, deploys this repository's template.yaml to it, and runs until Ctrl-C.
    Other commands connect to it by default.

    \b
    Examples:
      shardmill dev
      shardmill dev --port 4600 --state /tmp/mill --workers 2
      shardmill dev --workers 0 --json
    """
    from shardmill.local.dev import run_dev

    raise typer.Exit(run_dev(port, state, workers, as_json))


def demo(as_json: Json = False) -> None:
    """Run an example job from start to finish.

    Starts a temporary environment like that of `shardmill dev` and runs the balance-report example with 12
    shards. Shows the progress, the result and the estimated cost on AWS.

    \b
    Examples:
      shardmill demo
      shardmill demo --json
    """
    from shardmill.cli.demo import run_demo

    raise typer.Exit(run_demo(as_json))
