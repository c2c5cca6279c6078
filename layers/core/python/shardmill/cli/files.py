"""files"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shardmill.cli import output
from shardmill.cli.options import JobName, Json, Token, Trigger, Url

if TYPE_CHECKING:
    from shardmill.model.transfers import JobFile

OfStep = Annotated[
    str | None, typer.Option("--step", metavar="STEP", show_default=False, help="Only those of this step.")
]
Pattern = Annotated[
    str | None,
    typer.Option(
        "--name",
        metavar="PATTERN",
        show_default=False,
        help="Only those that this name or pattern fits, such as 'part-*.csv'.",
    ),
]

_SHORT = 12
_COLUMNS: dict[str, Callable[[JobFile], object]] = {
    "STEP": lambda file: file.step_name,
    "INDEX": lambda file: file.index,
    "NAME": lambda file: file.name,
    "SIZE": lambda file: output.size(file.size),
    "SHA256": lambda file: file.sha256[:_SHORT],
}


def files(
    job_name: JobName,
    trigger: Trigger,
    step: OfStep = None,
    name: Pattern = None,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """List the files of a Job: those that came with it, and those that its tasks made.

    In the order of steps and tasks; one without a step came with the Job. Only what a task made that
    succeeded is there. `shardmill get` fetches them.

    \b
    Examples:
      shardmill files word-count book1
      shardmill files word-count book1 --step count --name 'counts-*.txt'
      shardmill files word-count book1 --json | jq 'map(.size) | add'
    """
    from shardmill.client import Client

    with Client(url, token) as client:
        found = client.files(job_name, trigger, step=step, name=name)
        if as_json:
            output.json_list(plain(file) for file in found)
            return
        first = next(found, None)
        if first is None:
            output.message(f"the Job {job_name}/{trigger} has no files{chosen(step, name)}")
            return
        output.listing(chain([first], found), _COLUMNS, as_json=False)


def plain(file: JobFile) -> dict[str, Any]:
    """A file for programs; without its address, which whoever reads it could fetch it from."""
    return file.model_dump(mode="json", exclude={"url"})


def chosen(step: str | None, name: str | None, index: int | None = None) -> str:
    """How files were chosen, for a sentence that ends with it."""
    named = f" that {name!r} fits" if name is not None else ""
    of_step = f" of step {step!r}" if step is not None else ""
    return named + of_step + ("" if index is None else f" of the task {index}")
