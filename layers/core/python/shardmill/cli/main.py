"""Entry point of the `shardmill` command."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line; name the missing package if its extra is not installed."""
    try:
        from shardmill.cli.app import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit(
            f"shardmill: the command line needs {error.name}; install it with pip install 'shardmill[cli]'"
        )
    if "_SHARDMILL_COMPLETE" in os.environ:  # the shell asks for completions
        from typer._completion_classes import completion_init

        completion_init()
    app()
