"""dev, demo"""

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
        help="Port on loopback; without it, a free one.",
    ),
]
State = Annotated[
    Path | None,
    typer.Option(
        "--state",
        metavar="DIR",
        show_default=False,
        help="Folder that keeps the state; without it, .shardmill.",
    ),
]
Workers = Annotated[
    int,
    typer.Option("--workers", metavar="N", min=0, max=64, help="Pull workers of 4 slots for group default."),
]
JsonReady = Annotated[bool, typer.Option("--json", help="Print one JSON line when ready.")]


def dev(port: Port = None, state: State = None, workers: Workers = 1, as_json: JsonReady = False) -> None:
    """Run Shardmill on this machine.

    Starts a local AWS with this repository's template.yaml deployed to it, on loopback only, and runs until
    Ctrl-C. Other commands find it by themselves.

    \b
    Examples:
      shardmill dev
      shardmill dev --port 4600 --state /tmp/mill --workers 2
      shardmill dev --workers 0 --json
    """
    from shardmill.local.dev import run_dev

    raise typer.Exit(run_dev(port, state, workers, as_json))


def demo(as_json: Json = False) -> None:
    """Run an example job, with everything it needs.

    The balance-report job with 12 shards, on a laptop cloud of its own, which is stopped afterwards. Shows
    live progress, the result, and what it would have cost on AWS. Exit code 0 only if it succeeded.

    \b
    Examples:
      shardmill demo
      shardmill demo --json
    """
    from shardmill.cli.demo import run_demo

    raise typer.Exit(run_demo(as_json))
