"""top: watch jobs, groups and workers on the whole terminal."""

from __future__ import annotations

import sys

from shardmill.cli import output, terminal
from shardmill.cli.options import Json, Token, Url

TIMEOUT_SECONDS = 5.0


def top(url: Url = None, token: Token = None, as_json: Json = False) -> None:
    """Watch jobs, groups and workers.

    Fills the terminal and updates itself until q is pressed. It sends at most 30 requests a minute; the API
    answers those whose data has not changed without content. Without a terminal, and with --json, it prints
    once.

    \b
    Examples:
      shardmill top
      shardmill top --no-color
      shardmill top --json | jq '.now.groups[] | select(.online == 0) | .name'
    """
    from shardmill.cli.top import screen
    from shardmill.cli.top.feed import Feed
    from shardmill.client.client import Client

    with Client(url, token, timeout=TIMEOUT_SECONDS) as client:
        if as_json:
            found = Feed(client).read_all()
            output.json_document({"now": found.now, "workers": found.workers})
        elif sys.stdin.isatty() and terminal.can_redraw(sys.stdout):
            screen.show_screen(client)
        else:
            screen.print_once(client)
