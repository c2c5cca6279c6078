"""open: open the dashboard in a browser."""

from __future__ import annotations

import webbrowser
from typing import Annotated
from urllib.parse import quote

import typer

from shardmill.cli import output
from shardmill.cli.options import Json, OptionalJobName, OptionalTrigger, Token, Url

Print = Annotated[bool, typer.Option("--print", help="Print the address instead of opening it.")]


def open_page(
    job_name: OptionalJobName = None,
    trigger: OptionalTrigger = None,
    print_only: Print = False,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Open the dashboard, a definition or a job in a browser.

    The dashboard of `shardmill dev` is signed in; the dashboard of a deployment asks for a token.

    \b
    Examples:
      shardmill open
      shardmill open balance-report
      shardmill open balance-report 20200121
      shardmill open balance-report 20200121 --print
    """
    from shardmill.client.connection import connection

    address = page_address(connection(url, token).url, job_name, trigger)
    opened = not (print_only or as_json) and webbrowser.open(address)
    if as_json:
        output.json_document({"url": address})
        return
    output.line(address)
    if not (print_only or opened):
        output.message("no browser could be started; open the address yourself")


def page_address(url: str, job_name: str | None, trigger: str | None) -> str:
    """The address of the dashboard's view of a job or a definition, or of its overview."""
    if job_name is None:
        return f"{url}/"
    if trigger is None:
        return f"{url}/#/definitions/{quote(job_name, safe='')}"
    return f"{url}/#/jobs/{quote(job_name, safe='')}/{quote(trigger, safe='')}"
