"""How far something is that has many parts: a live bar on a terminal, lines elsewhere."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shardmill.cli.output import message, printable

if TYPE_CHECKING:
    from rich.console import RenderableType

LINES = 20  # that it is worth where nobody watches
_STYLES = {"done": "green", "failed": "red", "refused": "red", "skipped": "dim", "running": "cyan"}
_BAD = ("failed", "refused")
_NEWS = (*_BAD, "running")


@dataclass(frozen=True, slots=True)
class Count:
    """How many of the parts, in words; `ended` of them need nothing more."""

    name: str
    total: int
    ended: int
    numbers: Mapping[str, int]

    def __str__(self) -> str:
        told = ", ".join(f"{number} {word}" for word, number in self.numbers.items())
        return f"{self.name}: {told} of {self.total}"

    def any_of(self, words: tuple[str, ...]) -> list[str]:
        return [word for word in words if self.numbers.get(word)]


@contextlib.contextmanager
def shown_counts() -> Iterator[Callable[[Count], None]]:
    """Gives what is to be called with each new count; prints on standard error."""
    if not (sys.stdout.isatty() and sys.stderr.isatty()):
        yield Lines()
        return
    from shardmill.cli.render.progress import live

    with live(bar) as show:
        yield show


class Lines:
    """Says it again when a twentieth more has ended, at the first failure, and at the end."""

    def __init__(self) -> None:
        self._said: object = None

    def __call__(self, count: Count) -> None:
        news = (count.name, count.ended * LINES // max(1, count.total), count.any_of(_NEWS))
        if news != self._said:
            self._said = news
            message(str(count))


def bar(count: Count, _room: int = 2) -> RenderableType:
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1))
    grid.add_row(
        ProgressBar(
            total=max(1, count.total),
            completed=count.ended,
            width=40,
            style="bright_black",
            complete_style="cyan",
            finished_style="red" if count.any_of(_BAD) else "green",
        ),
        f"{count.ended}/{count.total}",
        *(
            Text(f"{number} {word}", style=_STYLES[word] if number else "dim")
            for word, number in count.numbers.items()
        ),
    )
    return Group(Text(count.name, style="bold", no_wrap=True), grid)


if TYPE_CHECKING:
    from shardmill.client.transfer import Progress


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
