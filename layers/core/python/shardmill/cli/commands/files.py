"""files, get: list and download the files of a job."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shardmill.cli import complete, output
from shardmill.cli.options import JobName, Json, Token, Trigger, Url
from shardmill.cli.render.bars import transfer_progress
from shardmill.cli.watch import Watch, show_list

if TYPE_CHECKING:
    from shardmill.model.transfers import JobFile

OfStep = Annotated[
    str | None,
    typer.Option(
        "--step",
        metavar="STEP",
        show_default=False,
        help="Select files of this step only.",
        autocompletion=complete.steps,
    ),
]
OfTask = Annotated[
    int | None,
    typer.Option(
        "--index",
        metavar="N",
        min=0,
        show_default=False,
        help="Select files of the task with this index only.",
    ),
]
Pattern = Annotated[
    str | None,
    typer.Option(
        "--name",
        metavar="PATTERN",
        show_default=False,
        help="Select files whose name matches, such as 'part-*.csv'.",
    ),
]
FileName = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the file, or a pattern such as 'part-*.csv'.")
]
To = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="PATH",
        show_default="the current folder",
        help="File to write, folder to write into (ending with /), or - for standard output.",
    ),
]
Join = Annotated[bool, typer.Option("--join", help="Concatenate the files, in the order of steps and tasks.")]
Overwrite = Annotated[bool, typer.Option("--force", help="Overwrite existing files.")]

_SHOWN_DIGITS = 12
_COLUMNS: dict[str, Callable[[JobFile], object]] = {
    "STEP": lambda file: file.step_name,
    "INDEX": lambda file: file.index,
    "NAME": lambda file: file.name,
    "SIZE": lambda file: output.size(file.size),
    "SHA256": lambda file: file.sha256[:_SHOWN_DIGITS],
}


def files(
    job_name: JobName,
    trigger: Trigger,
    step: OfStep = None,
    name: Pattern = None,
    watch: Watch = False,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """List the files of a job.

    Lists the inputs of the job, which have no step, and the outputs of its successful tasks, in the order of
    steps and tasks. Use `shardmill get` to download files.

    \b
    Examples:
      shardmill files word-count book1
      shardmill files word-count book1 --step count --name 'counts-*.txt'
      shardmill files word-count book1 --json | jq 'map(.size) | add'
    """
    from shardmill.client.client import Client

    with Client(url, token) as client:
        if watch:

            def read() -> Iterable[Any]:
                found = client.files(job_name, trigger, step=step, name=name)
                return map(_as_json, found) if as_json else found

            show_list(read, _COLUMNS, as_json, watch)
            return
        found = client.files(job_name, trigger, step=step, name=name)
        if as_json:
            output.json_list(_as_json(file) for file in found)
            return
        first = next(found, None)
        if first is None:
            output.message(f"job {job_name}/{trigger} has no files{_filter_text(step, name)}")
            return
        output.listing(chain([first], found), _COLUMNS, as_json=False)


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
    """Download files of a job and print their paths.

    A file appears under its name only when it is complete and its checksum is verified. Interrupted downloads
    are resumed. Several files are written into a folder (--to); files of the same name go into subfolders
    named after the index of their task.

    \b
    Examples:
      shardmill get word-count book1 words.txt
      shardmill get word-count book1 words.txt --to - | sort -rn | head
      shardmill get word-count book1 'counts-*.txt' --to counts/
      shardmill get word-count book1 'counts-*.txt' --join --to all-counts.txt
      shardmill get balance-report 20200121 log.txt --step generate_files --index 3 --to log3.txt
    """
    from shardmill.cli.download import STDOUT, Download
    from shardmill.client.client import Client
    from shardmill.client.errors import NotFound

    if to == "":
        raise typer.BadParameter("must be a path, or - for standard output", param_hint="--to")
    if to == STDOUT and as_json:
        raise typer.BadParameter("cannot be standard output with --json", param_hint="--to")
    with Client(url, token) as client:
        listed = client.files(job_name, trigger, step=step, name=name)
        found = [file for file in listed if index is None or file.index == index]
        if not found:
            raise NotFound(
                f"job {job_name}/{trigger} has no file{_filter_text(step, name, index)}; "
                f"to list its files, run: shardmill files {job_name} {trigger}"
            )
        with transfer_progress(enabled=to != STDOUT or not sys.stdout.isatty()) as progress:
            download = Download(client, (job_name, trigger), force, progress)
            downloaded = download.run(found, name, to, join)
        if as_json:
            output.json_list({**_as_json(file), "path": str(path)} for file, path in downloaded)
        elif to != STDOUT:
            for path in dict.fromkeys(path for _, path in downloaded):
                output.line(output.printable(str(path)))


def _as_json(file: JobFile) -> dict[str, Any]:
    """Return the fields of a file, without its presigned URL, which would grant access to it."""
    return file.model_dump(mode="json", exclude={"url"})


def _filter_text(step: str | None, name: str | None, index: int | None = None) -> str:
    """Describe how files were selected, to end a sentence."""
    matching = f" matching {name!r}" if name is not None else ""
    of_step = f" in step {step!r}" if step is not None else ""
    return matching + of_step + ("" if index is None else f" of task {index}")
