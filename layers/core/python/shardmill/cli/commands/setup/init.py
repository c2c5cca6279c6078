"""init: create a starter project."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from shardmill.cli import output
from shardmill.cli.exits import OTHER
from shardmill.cli.options import Json

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder to create the files in.")]
Name = Annotated[
    str | None,
    typer.Option(
        "--name", metavar="JOB", show_default=False, help="Name of the job. Default: the name of the folder."
    ),
]


def init(folder: Folder = Path(), name: Name = None, as_json: Json = False) -> None:
    """Create a starter project: a definition and its program.

    Existing files are never overwritten: if one of the files exists, nothing is written.

    \b
    Examples:
      shardmill init my-job
      shardmill init . --name word-report
    """
    from shardmill.cli.starter import starter_files

    place = folder.expanduser().resolve()
    job_name = name or _name_of(place)
    _check_name(job_name)
    files = starter_files(job_name, place)
    existing = [each for each in files if (place / each).exists()]
    if existing:
        output.message(
            f"{place} already has {', '.join(existing)}; nothing was written. Choose another folder"
        )
        raise typer.Exit(OTHER)
    _write(place, files)
    if as_json:
        output.json_document({"jobName": job_name, "folder": str(place), "files": list(files)})
        return
    for each in files:
        output.line(f"created {folder / each}")
    output.line(
        f"\nNext: start `shardmill dev` in another terminal, then: cd {folder} && shardmill define job.yaml"
    )
    output.line(f"      shardmill submit {job_name} first --wait")


def _write(place: Path, files: dict[str, str]) -> None:
    try:
        place.mkdir(parents=True, exist_ok=True)
        for each, text in files.items():
            with (place / each).open("x") as file:
                file.write(text)
    except OSError as error:
        output.message(f"cannot write {error.filename}: {error.strerror}")
        raise typer.Exit(OTHER) from None


def _name_of(place: Path) -> str:
    """A valid job name from the name of a folder."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", place.name).strip("-_") or "my-job"


def _check_name(name: str) -> None:
    from pydantic import TypeAdapter, ValidationError

    from shardmill.model.base import Name as JobName

    try:
        TypeAdapter(JobName).validate_python(name)
    except ValidationError as error:
        reason = error.errors(include_url=False)[0]["msg"]
        raise typer.BadParameter(
            f"{name!r} is not a valid job name: it {reason}", param_hint="--name"
        ) from None
