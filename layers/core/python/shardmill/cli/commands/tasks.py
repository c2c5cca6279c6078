"""tasks: list the tasks of a step, or show one task and its attempts."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from shardmill.cli import output
from shardmill.cli.options import JobName, Json, Run, StepName, Token, Trigger, Url
from shardmill.cli.render.job import TAIL_LINES
from shardmill.cli.watch import Watch, show_list
from shardmill.model.states import TaskState

if TYPE_CHECKING:
    from shardmill.client.client import Client
    from shardmill.model.job import Attempt, Task

State = Annotated[
    TaskState | None,
    typer.Option("--state", case_sensitive=False, show_default=False, help="List tasks in this state only."),
]
Limit = Annotated[
    int | None,
    typer.Option(
        "--limit",
        metavar="N",
        min=1,
        show_default=False,
        help="Maximum number of tasks to list. Default: all.",
    ),
]
OptionalIndex = Annotated[
    int | None,
    typer.Argument(metavar="INDEX", min=0, show_default=False, help="Index of a task, to show its attempts."),
]


def _progress(task: Task) -> str:
    from shardmill.cli.render.progress import progress_text

    return progress_text(task.progress)


class _WorkerNames:
    """Names of workers by ID, read once and only if needed."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def __call__(self, worker_id: str | None) -> str | None:
        return self._names.get(worker_id, worker_id) if worker_id else None

    @cached_property
    def _names(self) -> dict[str, str]:
        from shardmill.client.errors import ShardmillError

        try:
            return {worker.id: worker.name for worker in self._client.workers()}
        except ShardmillError as error:
            output.message(f"cannot read the names of workers, showing their IDs instead: {error.detail}")
            return {}


def _columns(name_of: _WorkerNames) -> dict[str, Callable[[Task], object]]:
    return {
        "INDEX": lambda task: task.sharding.index,
        "STATE": lambda task: task.state.value,
        "ATTEMPT": lambda task: task.attempt,
        "WORKER": lambda task: name_of(task.worker),
        "STARTED": lambda task: task.execute_time,
        "DURATION": lambda task: output.elapsed(
            task.execute_time, task.completed_time, running=task.state is TaskState.RUNNING
        ),
        "PROGRESS": _progress,
    }


def _attempt_columns(name_of: _WorkerNames) -> dict[str, Callable[[Attempt], object]]:
    return {
        "ATTEMPT": lambda attempt: attempt.attempt,
        "WORKER": lambda attempt: name_of(attempt.worker),
        "STARTED": lambda attempt: attempt.start_time,
        "DURATION": lambda attempt: output.elapsed(attempt.start_time, attempt.end_time),
        "EXIT CODE": lambda attempt: attempt.exit_code,
        "REASON": lambda attempt: attempt.reason or attempt.outcome,
        "MESSAGE": lambda attempt: attempt.message,
    }


def tasks(
    job_name: JobName,
    trigger: Trigger,
    step_name: StepName,
    index: OptionalIndex = None,
    state: State = None,
    limit: Limit = None,
    run: Run = None,
    watch: Watch = False,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """List the tasks of a step, or show a task and its attempts.

    \b
    Examples:
      shardmill tasks balance-report 20200121 generate_files
      shardmill tasks balance-report 20200121 generate_files --state FAILED
      shardmill tasks balance-report 20200121 generate_files --state RUNNING --watch
      shardmill tasks balance-report 20200121 generate_files 3
      shardmill tasks balance-report 20200121 generate_files --run 1
    """
    from shardmill.client.client import Client

    if index is not None and (state, limit, watch) != (None, None, False):
        raise typer.BadParameter("--state, --limit and --watch cannot be combined with INDEX")
    with Client(url, token) as client:
        if index is not None:
            _show(client.task(job_name, trigger, step_name, index, run=run), _WorkerNames(client), as_json)
            return
        page = min(limit or 200, 200)
        show_list(
            lambda: islice(client.tasks(job_name, trigger, step_name, state, run=run, page=page), limit),
            _columns(_WorkerNames(client)),
            as_json,
            watch,
        )


def _show(task: Task, name_of: _WorkerNames, as_json: bool) -> None:
    if as_json:
        output.json_document(task)
        return
    where = f"{task.job_name} {task.trigger} {task.step_name} {task.sharding.index}"
    output.line(f"{output.paint(where, 1)} {output.paint_state(task.state.value)}")
    output.details(
        {
            "id": task.id,
            "pack": f"{task.pack.start} to {task.pack.end}" if task.pack else None,
            "progress": _progress(task),
            "output": None if task.output is None else json.dumps(task.output, ensure_ascii=False),
        }
    )
    if not task.attempts:
        return
    output.line()
    output.listing(task.attempts, _attempt_columns(name_of), as_json=False)
    _show_last_output(task)


def _show_last_output(task: Task) -> None:
    """Print the end of the newest output, preferring standard error to standard output."""
    for attempt in reversed(task.attempts):
        for stream, text in (("stderr", attempt.stderr), ("stdout", attempt.stdout)):
            if text and text.strip():
                output.line(f"\nLast lines of {stream} of attempt {attempt.attempt}:")
                for line in text.splitlines()[-TAIL_LINES:]:
                    output.line(f"  {output.printable(line)}")
                return
