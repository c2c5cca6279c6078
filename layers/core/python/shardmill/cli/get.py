"""get"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from shardmill.cli import output
from shardmill.cli.files import OfStep, chosen, plain
from shardmill.cli.options import JobName, Json, Token, Trigger, Url
from shardmill.cli.transfers import shown_transfers

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
    from shardmill.cli.fetching import STDOUT, Errand
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
