"""A Job while it runs: a live bar for each step on a terminal, a line for each change elsewhere."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from shardmill.cli.output import cell, message
from shardmill.model.job import Job, Step
from shardmill.model.states import StepState, TaskState

if TYPE_CHECKING:
    from rich.console import Group

Show = Callable[[Job], None]

_STYLES = {
    StepState.SUCCESS: "green",
    StepState.TOLERATED: "yellow",
    StepState.SUSPENDED: "yellow",
    StepState.RUNNING: "cyan",
    StepState.FAILED: "red",
    StepState.KILLED: "red",
    StepState.SKIPPED: "dim",
    StepState.WAITING: "dim",
}
_MOST_INTERESTING = (StepState.RUNNING, StepState.FAILED, StepState.READY, StepState.SUSPENDED)


@contextlib.contextmanager
def shown_progress() -> Iterator[Show]:
    """Gives what is to be called with each new look at the Job; prints on standard error."""
    if not sys.stderr.isatty():
        yield Changes()
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    with Live(console=console, refresh_per_second=8, transient=False) as live:
        yield lambda job: live.update(bars(job, room=max(3, console.height - 3)))


class Changes:
    """Says each change of a state once."""

    def __init__(self) -> None:
        self._said: dict[str, str] = {}

    def __call__(self, job: Job) -> None:
        for step in job.steps:
            self._say(f"step {step.step_name}", step.state.value, f"{done(step)} of {step.total_work} tasks")
        self._say(f"job {job.job_name}/{job.trigger}", job.state.value, "")

    def _say(self, what: str, state: str, more: str) -> None:
        if self._said.get(what) != state:
            self._said[what] = state
            message(f"{what} {state}" + (f" ({more})" if more else ""))


def done(step: Step) -> int:
    return step.total_work - step.remain_work


def bars(job: Job, room: int) -> Group:
    """The Job and as many of its steps as there is room for."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    shown = chosen(job.steps, room)
    grid = Table.grid(padding=(0, 1))
    title = Text(f"{job.job_name}/{job.trigger} {job.state.value}", style="bold", no_wrap=True)
    for step in shown:
        style = _STYLES.get(step.state, "default")
        bar = ProgressBar(
            total=max(1, step.total_work),
            completed=done(step),
            width=40,
            style="bright_black",
            complete_style="cyan",
            finished_style=style,
        )
        failed = step.counts.get(TaskState.FAILED, 0)
        state = Text(step.state.value, style=style)
        if failed:
            state.append(f" {failed} failed", style="red")
        grid.add_row(Text(cell(step.step_name)), bar, f"{done(step)}/{step.total_work}", state)
    hidden = len(job.steps) - len(shown)
    if hidden:
        ended = sum(step.state.ended for step in job.steps)
        grid.add_row(f"… {hidden} more steps", "", f"{ended}/{len(job.steps)}", "steps ended")
    return Group(title, grid)


def chosen(steps: list[Step], room: int) -> list[Step]:
    """The steps that people want to see, in their order: first what runs, then what is about to."""
    if len(steps) <= room:
        return steps

    def rank(step: Step) -> tuple[int, int]:
        if step.state in _MOST_INTERESTING:
            return _MOST_INTERESTING.index(step.state), step.index
        return len(_MOST_INTERESTING) + step.state.ended, step.index

    return sorted(sorted(steps, key=rank)[: room - 1], key=lambda step: step.index)
