"""Entry point of the `shardmill` command."""

from __future__ import annotations

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
    app()
