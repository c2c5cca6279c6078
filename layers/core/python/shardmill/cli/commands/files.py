"""get"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shardmill.cli import output
from shardmill.cli.options import JobName, Json, Token, Trigger, Url
from shardmill.cli.render.bars import shown_transfers

FileName = Annotated[
    str, typer.Argument(metavar="NAME", help="The name of the file, or a pattern such as 'part-*.csv'.")
]
OfTask = Annotated[
    int | None,
    typer.Option(
        "--index", metavar="N", min=0, show_default=False, help="Only those of the task with this index."
    ),
]
To = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="PATH",
        show_default="this folder",
        help="The file to write; or the folder, with / at its end; or - for standard output.",
    ),
]
Join = Annotated[
    bool, typer.Option("--join", help="Make one file of them all, in the order of steps and tasks.")
]
Overwrite = Annotated[bool, typer.Option("--force", help="Overwrite what is there.")]


def get(
    job_name: JobName,
    trigger: Trigger,
    name: FileName,
    step: OfStep = None,
    index: OfTask = None,
    to: To = None,
    join: Join = False,
    force: Overwrite = False,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Fetch files of a Job.

    A file appears under its name only when it is whole and its checksum right; one that breaks off goes on
    where it was. Several files go into a folder (--to); those of the same name then into folders in it, named
    by the index of their task. Prints where they are.

    \b
    Examples:
      shardmill get word-count book1 words.txt
      shardmill get word-count book1 words.txt --to - | sort -rn | head
      shardmill get word-count book1 'counts-*.txt' --to counts/
      shardmill get word-count book1 'counts-*.txt' --join --to all-counts.txt
      shardmill get balance-report 20200121 log.txt --step generate_files --index 3 --to log3.txt
    """
    from shardmill.cli.download import STDOUT, Errand
    from shardmill.client import Client, NotFound

    if to == "" or (to == STDOUT and as_json):
        raise typer.BadParameter("is a path; with --json it cannot be standard output", param_hint="--to")
    with Client(url, token) as client:
        listed = client.files(job_name, trigger, step=step, name=name)
        found = [file for file in listed if index is None or file.index == index]
        if not found:
            raise NotFound(
                f"the Job {job_name}/{trigger} has no file{chosen(step, name, index)}; "
                f"`shardmill files {job_name} {trigger}` lists those there are"
            )
        with shown_transfers(wanted=to != STDOUT or not sys.stdout.isatty()) as progress:
            errand = Errand(client, (job_name, trigger), force, progress)
            fetched = errand.run(found, name, to, join)
        if as_json:
            output.json_list({**plain(file), "path": str(path)} for file, path in fetched)
        elif to != STDOUT:
            for path in dict.fromkeys(path for _, path in fetched):
                output.line(output.printable(str(path)))


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
