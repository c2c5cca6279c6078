"""A Job while it runs: a live bar for each step on a terminal, a line for each change elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from shardmill.cli.output import cell, message, printable
from shardmill.cli.render.job import waits_for
from shardmill.model.job import Job, Step, Task, TaskProgress
from shardmill.model.states import StepState, TaskState

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.progress_bar import ProgressBar

    from shardmill.client import Client

T = TypeVar("T")
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
LOOK_SECONDS = 2.0
_MOST_STEPS = 5
_MOST_TASKS = 5
_MOST_INTERESTING = (StepState.RUNNING, StepState.FAILED, StepState.READY, StepState.SUSPENDED)


@contextlib.contextmanager
def shown_progress(client: Client) -> Iterator[Show]:
    """Gives what is to be called with each new look at the Job; prints on standard error."""
    if not sys.stderr.isatty():
        yield Changes()
        return
    running = Running(client)

    def draw(job: Job, room: int) -> Group:
        return bars(job, room, running.tasks(job))

    with live(draw) as show:
        yield show


@contextlib.contextmanager
def live(draw: Callable[[T, int], RenderableType]) -> Iterator[Callable[[T], None]]:
    """What was seen last, drawn on the terminal in as many lines as there is room for; its end stays."""
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    with Live(console=console, refresh_per_second=8, transient=False) as screen:
        yield lambda seen: screen.update(draw(seen, max(3, console.height - 3)))


class Running:
    """The running tasks of a Job that told how far they are, by step; asked for every two seconds."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._looked = float("-inf")
        self._found: dict[str, list[Task]] = {}

    def tasks(self, job: Job) -> Mapping[str, Sequence[Task]]:
        running = [step.step_name for step in job.steps if step.state is StepState.RUNNING]
        if time.monotonic() - self._looked >= LOOK_SECONDS:
            self._found = {name: self._ask(job, name) for name in running[:_MOST_STEPS]}
            self._looked = time.monotonic()
        return {name: self._found[name] for name in running if name in self._found}

    def _ask(self, job: Job, step_name: str) -> list[Task]:
        from shardmill.client import ShardmillError

        try:
            found = self._client.some_tasks(job.job_name, job.trigger, step_name, TaskState.RUNNING, most=10)
        except ShardmillError:  # the Job itself is looked at again, and says it if something is wrong
            return []
        return [task for task in found if task.progress][:_MOST_TASKS]


def told(progress: TaskProgress | None) -> str:
    """How far a task says it is."""
    if not progress:
        return ""
    percent = "" if progress.percent is None else f"{progress.percent:.0f}%"
    return f"{percent} {printable(progress.message or '')}".strip()


def task_bar(progress: TaskProgress | None, width: int) -> ProgressBar | str:
    """A bar for a task that told its percentage."""
    from rich.progress_bar import ProgressBar

    if not progress or progress.percent is None:
        return ""
    return ProgressBar(
        total=100, completed=progress.percent, width=width, style="bright_black", complete_style="blue"
    )


class Changes:
    """Says each change of a state once."""

    def __init__(self) -> None:
        self._said: dict[str, str] = {}
        self._waits: set[str] = set()

    def __call__(self, job: Job) -> None:
        for step in job.steps:
            self._say(f"step {step.step_name}", step.state.value, f"{done(step)} of {step.total_work} tasks")
        self._say(f"job {job.job_name}/{job.trigger}", job.state.value, "")
        for what in waits_for(job):
            if what not in self._waits:
                self._waits.add(what)
                message(f"job {job.job_name}/{job.trigger} waits for: {what}")

    def _say(self, what: str, state: str, more: str) -> None:
        if self._said.get(what) != state:
            self._said[what] = state
            message(f"{what} {state}" + (f" ({more})" if more else ""))


def done(step: Step) -> int:
    return step.total_work - step.remain_work


def bars(job: Job, room: int, running: Mapping[str, Sequence[Task]]) -> Group:
    """The Job and as many of its steps, and of their running tasks, as there is room for."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    shown = chosen(job.steps, room)
    spare = room - len(shown)
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
        for task in running.get(step.step_name, ())[:spare]:
            spare -= 1
            index = Text(f"  task {task.sharding.index}", style="dim")
            grid.add_row(index, task_bar(task.progress, 40), "", Text(told(task.progress), no_wrap=True))
    hidden = len(job.steps) - len(shown)
    if hidden:
        ended = sum(step.state.ended for step in job.steps)
        grid.add_row(f"… {hidden} more steps", "", f"{ended}/{len(job.steps)}", "steps ended")
    waits = [Text(f"waits for: {cell(what)}", style="yellow") for what in waits_for(job)[:3]]
    return Group(title, *waits, grid)


def chosen(steps: list[Step], room: int) -> list[Step]:
    """The steps that people want to see, in their order: first what runs, then what is about to."""
    if len(steps) <= room:
        return steps

    def rank(step: Step) -> tuple[int, int]:
        if step.state in _MOST_INTERESTING:
            return _MOST_INTERESTING.index(step.state), step.index
        return len(_MOST_INTERESTING) + step.state.ended, step.index

    return sorted(sorted(steps, key=rank)[: room - 1], key=lambda step: step.index)
