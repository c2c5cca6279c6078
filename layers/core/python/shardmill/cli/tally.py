"""How far a backfill is: a live bar on a terminal, lines elsewhere; and what its end means."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from shardmill.cli.exits import JOB_FAILED
from shardmill.cli.output import message
from shardmill.cli.wording import without_routes

if TYPE_CHECKING:
    from rich.console import RenderableType

    from shardmill.model.schedule import Backfill

LINES = 20  # that a backfill is worth where nobody watches
_STYLES = {"done": "green", "failed": "red", "skipped": "dim", "running": "cyan"}


def told(backfill: Backfill) -> str:
    counts = ", ".join(f"{number} {word}" for word, number in _counts(backfill).items())
    return f"{_name(backfill)}: {counts} of {backfill.total}"


@contextlib.contextmanager
def shown_backfill() -> Iterator[Callable[[Backfill], None]]:
    """Gives what is to be called with each new look at the backfill; prints on standard error."""
    if not (sys.stdout.isatty() and sys.stderr.isatty()):
        yield Lines()
        return
    from shardmill.cli.progress import live

    with live(bar) as show:
        yield show


class Lines:
    """Says it again when a twentieth more has ended, at the first failure, and at the end."""

    def __init__(self) -> None:
        self._said: object = None

    def __call__(self, backfill: Backfill) -> None:
        ended = _ended(backfill) * LINES // max(1, backfill.total)
        news = (backfill.state, ended, backfill.failed > 0, backfill.running > 0)
        if news != self._said:
            self._said = news
            message(told(backfill))


def bar(backfill: Backfill, _room: int = 2) -> RenderableType:
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    finished = "red" if backfill.failed else "green"
    grid = Table.grid(padding=(0, 1))
    grid.add_row(
        ProgressBar(
            total=max(1, backfill.total),
            completed=_ended(backfill),
            width=40,
            style="bright_black",
            complete_style="cyan",
            finished_style=finished,
        ),
        f"{_ended(backfill)}/{backfill.total}",
        *(
            Text(f"{number} {word}", style=_STYLES[word] if number else "dim")
            for word, number in _counts(backfill).items()
        ),
    )
    return Group(Text(_name(backfill), style="bold", no_wrap=True), grid)


def verdict(backfill: Backfill) -> int:
    """The exit code for a backfill that is over: 0 if each of its times was run or need not be."""
    if backfill.success + backfill.skipped == backfill.total:
        return 0
    left = backfill.total - _ended(backfill)
    words = [f"{backfill.failed} failed"] if backfill.failed else []
    words += [f"{left} did not run"] if left else []
    notes = f": {without_routes(backfill.notes)}" if backfill.notes else ""
    message(f"of {backfill.total} times {' and '.join(words)}{notes}")
    message(f"see the Jobs with: shardmill jobs --job {backfill.job_name}")
    return JOB_FAILED


def _name(backfill: Backfill) -> str:
    return f"backfill {backfill.number} of {backfill.job_name} {backfill.schedule_id} {backfill.state}"


def _counts(backfill: Backfill) -> dict[str, int]:
    return {
        "done": backfill.success,
        "failed": backfill.failed,
        "skipped": backfill.skipped,
        "running": backfill.running,
    }


def _ended(backfill: Backfill) -> int:
    return backfill.success + backfill.failed + backfill.skipped
