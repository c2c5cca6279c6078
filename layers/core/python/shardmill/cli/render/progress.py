"""Progress of a running job: a live bar for each step on a terminal, a line for each change elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from shardmill.cli import terminal
from shardmill.cli.output import cell, message, printable
from shardmill.cli.render.job import waits_for
from shardmill.model.job import Job, Step, Task, TaskProgress
from shardmill.model.states import StepState, TaskState

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.progress_bar import ProgressBar

    from shardmill.client.client import Client

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
REFRESH_SECONDS = 2.0
_MAX_STEPS = 5
_MAX_TASKS = 5
_SHOWN_FIRST = (StepState.RUNNING, StepState.FAILED, StepState.READY, StepState.SUSPENDED)


@contextlib.contextmanager
def job_progress(client: Client) -> Iterator[Show]:
    """Yield a function that shows the current state of the job on standard error."""
    if not sys.stderr.isatty():
        yield StateChanges()
        return
    running = RunningTasks(client)

    def draw(job: Job, room: int) -> Group:
        return job_bars(job, room, running.tasks(job))

    with live(draw) as show:
        yield show


@contextlib.contextmanager
def live(draw: Callable[[T, int], RenderableType]) -> Iterator[Callable[[T], None]]:
    """Draw the latest value on the terminal, in as many lines as fit; the last drawing stays."""
    from rich.live import Live

    console = terminal.console(sys.stderr)
    with Live(console=console, refresh_per_second=8, transient=False) as screen:
        yield lambda value: screen.update(draw(value, max(3, console.height - 3)))


class RunningTasks:
    """The running tasks that report progress, by step; read at most every two seconds."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._read_at = float("-inf")
        self._tasks: dict[str, list[Task]] = {}

    def tasks(self, job: Job) -> Mapping[str, Sequence[Task]]:
        running = [step.step_name for step in job.steps if step.state is StepState.RUNNING]
        if time.monotonic() - self._read_at >= REFRESH_SECONDS:
            self._tasks = {name: self._read(job, name) for name in running[:_MAX_STEPS]}
            self._read_at = time.monotonic()
        return {name: self._tasks[name] for name in running if name in self._tasks}

    def _read(self, job: Job, step_name: str) -> list[Task]:
        from shardmill.client.errors import ShardmillError

        try:
            found = self._client.some_tasks(job.job_name, job.trigger, step_name, TaskState.RUNNING, most=10)
        except ShardmillError:  # a lasting error also fails the next read of the job, which reports it
            return []
        return [task for task in found if task.progress][:_MAX_TASKS]


def progress_text(progress: TaskProgress | None) -> str:
    """Format the progress that a task reports."""
    if not progress:
        return ""
    percent = "" if progress.percent is None else f"{progress.percent:.0f}%"
    return f"{percent} {printable(progress.message or '')}".strip()


def task_bar(progress: TaskProgress | None, width: int) -> ProgressBar | str:
    """Return a bar for a task that reports a percentage."""
    from rich.progress_bar import ProgressBar

    if not progress or progress.percent is None:
        return ""
    return ProgressBar(
        total=100, completed=progress.percent, width=width, style="bright_black", complete_style="blue"
    )


class StateChanges:
    """Prints each change of a state once."""

    def __init__(self) -> None:
        self._printed: dict[str, str] = {}
        self._waits: set[str] = set()

    def __call__(self, job: Job) -> None:
        for step in job.steps:
            self._print(
                f"step {step.step_name}", step.state.value, f"{done(step)} of {step.total_work} tasks"
            )
        self._print(f"job {job.job_name}/{job.trigger}", job.state.value, "")
        for what in waits_for(job):
            if what not in self._waits:
                self._waits.add(what)
                message(f"job {job.job_name}/{job.trigger} is waiting for: {what}")

    def _print(self, name: str, state: str, detail: str) -> None:
        if self._printed.get(name) != state:
            self._printed[name] = state
            message(f"{name} {state}" + (f" ({detail})" if detail else ""))


def done(step: Step) -> int:
    return step.total_work - step.remain_work


def job_bars(job: Job, room: int, running: Mapping[str, Sequence[Task]]) -> Group:
    """Draw the job, its steps and their running tasks, limited to `room` lines."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    shown = visible_steps(job.steps, room)
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
            grid.add_row(
                index, task_bar(task.progress, 40), "", Text(progress_text(task.progress), no_wrap=True)
            )
    hidden = len(job.steps) - len(shown)
    if hidden:
        ended = sum(step.state.ended for step in job.steps)
        grid.add_row(f"… {hidden} more steps", "", f"{ended}/{len(job.steps)}", "steps ended")
    waits = [Text(f"waiting for: {cell(what)}", style="yellow") for what in waits_for(job)[:3]]
    return Group(title, *waits, grid)


def visible_steps(steps: list[Step], room: int) -> list[Step]:
    """Return the steps that fit, in order; running and failed steps take precedence."""
    if len(steps) <= room:
        return steps

    def rank(step: Step) -> tuple[int, int]:
        if step.state in _SHOWN_FIRST:
            return _SHOWN_FIRST.index(step.state), step.index
        return len(_SHOWN_FIRST) + step.state.ended, step.index

    return sorted(sorted(steps, key=rank)[: room - 1], key=lambda step: step.index)
