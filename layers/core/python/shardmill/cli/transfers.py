"""Files on their way: a live bar on a terminal, and silence elsewhere."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from shardmill.cli.output import printable

if TYPE_CHECKING:
    from shardmill.client.store import Progress


@contextlib.contextmanager
def shown_transfers(*, wanted: bool = True) -> Iterator[Progress | None]:
    """Gives what is to be called with the bytes that went; nothing of it stays on the screen."""
    if not (wanted and sys.stderr.isatty()):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn
    from rich.progress import Progress as Bars

    doing = TextColumn("{task.description}", markup=False)
    columns = (doing, BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        bar = bars.add_task("", total=None, visible=False)
        before = ""

        def show(what: str, done: int, total: int) -> None:
            nonlocal before
            if what != before:
                before = what
                bars.reset(bar, description=printable(what), total=total, visible=True)
            bars.update(bar, completed=done)

        yield show
