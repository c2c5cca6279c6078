"""Show `shardmill top` on the whole terminal until q is pressed."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from shardmill.cli import terminal
from shardmill.cli.top.feed import Feed
from shardmill.cli.top.view import draw

if TYPE_CHECKING:
    from rich.console import RenderableType

    from shardmill.client.client import Client

REDRAW_SECONDS = 0.5
PLAIN_WIDTH = 200
_QUIT = {"q", "Q", "\x03", "\x04"}


def show_screen(client: Client) -> None:
    """Draw twice a second, in the present size of the terminal, until q or Ctrl-C."""
    from rich.live import Live

    console = terminal.console(sys.stdout)
    with (
        Feed(client) as feed,
        Live(console=console, screen=True, auto_refresh=False, redirect_stderr=False) as live,
        _single_keys() as keys,
    ):
        while True:
            live.update(_drawn(feed, client.url, console.height), refresh=True)
            pressed = next(keys)
            if pressed in _QUIT:
                return
            if pressed in ("r", "R"):
                feed.refresh()


def print_once(client: Client) -> None:
    """Print the overview once, without moving the cursor. Raises ShardmillError."""
    feed = Feed(client)
    feed.read_all()
    console = terminal.console(sys.stdout)
    if terminal.columns(sys.stdout) is None:
        console.width = PLAIN_WIDTH
    console.print(_drawn(feed, client.url, None))


def _drawn(feed: Feed, url: str, lines: int | None) -> RenderableType:
    snapshot = feed.snapshot
    age = None if snapshot.read_at is None else time.monotonic() - snapshot.read_at
    return draw(snapshot, url, datetime.now(UTC), age, lines)


@contextlib.contextmanager
def _single_keys() -> Iterator[Iterator[str]]:
    """Yield the pressed keys, an empty text if none was pressed in time; restore the terminal at the end."""
    stdin = sys.stdin.fileno()
    settings = termios.tcgetattr(stdin)
    tty.setcbreak(stdin)

    def keys() -> Iterator[str]:
        while True:
            ready, _, _ = select.select([stdin], [], [], REDRAW_SECONDS)
            pressed = os.read(stdin, 16).decode(errors="replace") if ready else ""
            yield "q" if ready and not pressed else pressed  # the end of the input ends the view

    try:
        yield keys()
    finally:
        termios.tcsetattr(stdin, termios.TCSADRAIN, settings)
