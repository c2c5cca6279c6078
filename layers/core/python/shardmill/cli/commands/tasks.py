"""tasks, logs"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from shardmill.cli import output
from shardmill.cli.options import JobName, Json, Run, StepName, Token, Trigger, Url
from shardmill.cli.render.job import TAIL_LINES
from shardmill.model.states import TaskState

if TYPE_CHECKING:
    from shardmill.client import Client
    from shardmill.client.client import Stream
    from shardmill.model.job import Attempt, Task

State = Annotated[
    TaskState | None,
    typer.Option("--state", case_sensitive=False, show_default=False, help="Only in this state."),
]
Most = Annotated[
    int | None,
    typer.Option(
        "--limit", metavar="N", min=1, show_default=False, help="How many at most; without it, all."
    ),
]
Index = Annotated[int, typer.Argument(metavar="INDEX", min=0, help="The index of the task.")]
OneIndex = Annotated[
    int | None,
    typer.Argument(
        metavar="INDEX", min=0, show_default=False, help="The index of one task, to see its attempts."
    ),
]
Number = Annotated[
    int | None,
    typer.Option("--attempt", metavar="N", min=1, show_default="the last", help="Which attempt at the task."),
]
Stderr = Annotated[bool, typer.Option("--stderr", help="Its standard error, not its standard output.")]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on until the task has ended.")]


def _progress(task: Task) -> str:
    from shardmill.cli.render.progress import told

    return told(task.progress)


class _Names:
    """The names of workers by their ids, asked for once, and only if somebody wants one."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def __call__(self, worker_id: str | None) -> str | None:
        return self._known.get(worker_id, worker_id) if worker_id else None

    @cached_property
    def _known(self) -> dict[str, str]:
        from shardmill.client import ShardmillError

        try:
            return {worker.id: worker.name for worker in self._client.workers()}
        except ShardmillError as error:
            output.message(f"workers are shown by their ids, as their names cannot be read: {error.detail}")
            return {}


def _columns(name_of: _Names) -> dict[str, Callable[[Task], object]]:
    return {
        "INDEX": lambda task: task.sharding.index,
        "STATE": lambda task: task.state.value,
        "ATTEMPT": lambda task: task.attempt,
        "WORKER": lambda task: name_of(task.worker),
        "STARTED": lambda task: task.execute_time,
        "TOOK": lambda task: output.took(task.execute_time, task.completed_time),
        "PROGRESS": _progress,
    }


def _attempt_columns(name_of: _Names) -> dict[str, Callable[[Attempt], object]]:
    return {
        "ATTEMPT": lambda attempt: attempt.attempt,
        "WORKER": lambda attempt: name_of(attempt.worker),
        "STARTED": lambda attempt: attempt.start_time,
        "TOOK": lambda attempt: output.took(attempt.start_time, attempt.end_time),
        "EXIT CODE": lambda attempt: attempt.exit_code,
        "REASON": lambda attempt: attempt.reason or attempt.outcome,
        "MESSAGE": lambda attempt: attempt.message,
    }


def tasks(
    job_name: JobName,
    trigger: Trigger,
    step_name: StepName,
    index: OneIndex = None,
    state: State = None,
    limit: Most = None,
    run: Run = None,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """List the tasks of a step, or show one with its attempts.

    \b
    Examples:
      shardmill tasks balance-report 20200121 generate_files
      shardmill tasks balance-report 20200121 generate_files --state FAILED
      shardmill tasks balance-report 20200121 generate_files 3
      shardmill tasks balance-report 20200121 generate_files --run 1
    """
    from shardmill.client import Client

    if index is not None and (state, limit) != (None, None):
        raise typer.BadParameter("one task takes no filter; --state and --limit are for the list only")
    with Client(url, token) as client:
        if index is not None:
            _show(client.task(job_name, trigger, step_name, index, run=run), _Names(client), as_json)
            return
        page = min(limit or 200, 200)
        found = islice(client.tasks(job_name, trigger, step_name, state, run=run, page=page), limit)
        output.listing(found, _columns(_Names(client)), as_json)


def _show(task: Task, name_of: _Names, as_json: bool) -> None:
    if as_json:
        output.json_document(task)
        return
    where = f"{task.job_name} {task.trigger} {task.step_name} {task.sharding.index}"
    output.line(f"{output.paint(where, 1)} {output.paint_state(task.state.value)}")
    output.facts(
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
    _show_last_words(task)


def _show_last_words(task: Task) -> None:
    """Of the newest attempt that said something; what it complained of rather than what it gave."""
    for attempt in reversed(task.attempts):
        for stream, text in (("stderr", attempt.stderr), ("stdout", attempt.stdout)):
            if text and text.strip():
                output.line(f"\nThe end of the {stream} of attempt {attempt.attempt}:")
                for line in text.splitlines()[-TAIL_LINES:]:
                    output.line(f"  {output.printable(line)}")
                return


def logs(
    job_name: JobName,
    trigger: Trigger,
    step_name: StepName,
    index: Index,
    stderr: Stderr = False,
    attempt: Number = None,
    follow: Follow = False,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Print the output of a task.

    That of its last attempt; with --follow, of this attempt and those that come; with --attempt, of that one.

    \b
    Examples:
      shardmill logs balance-report 20200121 merge_files 0
      shardmill logs balance-report 20200121 generate_files 3 --stderr --follow
      shardmill logs balance-report 20200121 generate_files 3 --attempt 1
    """
    from shardmill.client import Client

    stream: Stream = "stderr" if stderr else "stdout"
    with Client(url, token) as client:
        pieces = client.logs(job_name, trigger, step_name, index, stream, attempt=attempt, follow=follow)
        if as_json and not follow:
            pieces = iter(["".join(pieces)])
        for piece in pieces:
            if as_json:
                output.json_line({"stream": stream, "text": piece})
            else:
                sys.stdout.write(piece)
                sys.stdout.flush()
