"""limits: the limits of an application and its present use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from shardmill.cli import output
from shardmill.cli.options import Json, Token, Url

Application = Annotated[
    str,
    typer.Argument(
        metavar="[APPLICATION]",
        show_default=False,
        help="appName of definitions; default: definitions without one.",
    ),
]

_COLUMNS: dict[str, Callable[[tuple[str, int | None, int | None]], object]] = {
    "LIMIT": lambda row: row[0],
    "USED": lambda row: row[1],
    "MOST": lambda row: row[2],
}


def limits(
    application: Application = "", url: Url = None, token: Token = None, as_json: Json = False
) -> None:
    """Show the limits of an application and its present use.

    A dash means no limit, or a use that is not counted or that the token may not see.

    \b
    Examples:
      shardmill limits
      shardmill limits finance --json
    """
    from shardmill.client.client import Client

    with Client(url, token) as client:
        found = client.limits(application)
    if as_json:
        output.json_document(found)
        return
    kinds = ("definitions", "jobs", "tasks", "schedules", "bytes")
    rows = [(kind, limit.used, limit.limit) for kind in kinds for limit in (getattr(found, kind),)]
    output.listing(rows, _COLUMNS, as_json)
