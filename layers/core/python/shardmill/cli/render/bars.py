"""Progress of counted work and of file transfers: a live bar on a terminal, lines elsewhere."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shardmill.cli import terminal
from shardmill.cli.output import message, printable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from shardmill.client.local_files import Progress

MAX_LINES = 20
_STYLES = {"done": "green", "failed": "red", "refused": "red", "skipped": "dim", "running": "cyan"}
_FAILURES = ("failed", "refused")
_REPORTED = (*_FAILURES, "running")


@dataclass(frozen=True, slots=True)
class Count:
    """How many of `total` items have which outcome; `ended` of them are finished."""

    name: str
    total: int
    ended: int
    numbers: Mapping[str, int]

    def __str__(self) -> str:
        numbers = ", ".join(f"{number} {word}" for word, number in self.numbers.items())
        return f"{self.name}: {numbers} of {self.total}"

    def present(self, words: tuple[str, ...]) -> list[str]:
        """Return the outcomes whose number is not zero."""
        return [word for word in words if self.numbers.get(word)]


@contextlib.contextmanager
def count_progress() -> Iterator[Callable[[Count], None]]:
    """Yield a function that shows a new count on standard error."""
    if not (sys.stdout.isatty() and sys.stderr.isatty()):
        yield CountLines()
        return
    from shardmill.cli.render.progress import live

    with live(count_bar) as show:
        yield show


class CountLines:
    """Prints a line for every twentieth of the work, at the first failure and at the end."""

    def __init__(self) -> None:
        self._printed: object = None

    def __call__(self, count: Count) -> None:
        stage = (count.name, count.ended * MAX_LINES // max(1, count.total), count.present(_REPORTED))
        if stage != self._printed:
            self._printed = stage
            message(str(count))


def count_bar(count: Count, _room: int = 2) -> RenderableType:
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
            finished_style="red" if count.present(_FAILURES) else "green",
        ),
        f"{count.ended}/{count.total}",
        *(
            Text(f"{number} {word}", style=_STYLES[word] if number else "dim")
            for word, number in count.numbers.items()
        ),
    )
    return Group(Text(count.name, style="bold", no_wrap=True), grid)


@contextlib.contextmanager
def transfer_progress(*, enabled: bool = True) -> Iterator[Progress | None]:
    """Yield a function that shows the bytes transferred, or None without a terminal."""
    if not (enabled and sys.stderr.isatty()):
        yield None
        return
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn
    from rich.progress import Progress as Bars

    description = TextColumn("{task.description}", markup=False)
    columns = (description, BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Bars(*columns, console=terminal.console(sys.stderr), transient=True) as bars:
        bar = bars.add_task("", total=None, visible=False)
        current = ""

        def show(what: str, done: int, total: int) -> None:
            nonlocal current
            if what != current:
                current = what
                bars.reset(bar, description=printable(what), total=total, visible=True)
            bars.update(bar, completed=done)

        yield show
