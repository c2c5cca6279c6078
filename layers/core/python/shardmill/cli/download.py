"""Download files of a job into a file, into a folder or to standard output."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import typer

from shardmill.cli import output
from shardmill.client.errors import BadFile
from shardmill.client.local_files import check_target, new_file, path_inside
from shardmill.model.files import has_wildcard

if TYPE_CHECKING:
    from typing import BinaryIO

    from shardmill.client.client import Client
    from shardmill.client.local_files import Progress
    from shardmill.model.transfers import JobFile

STDOUT = "-"
CURRENT_FOLDER = Path(".")
_JOB_INPUTS_FOLDER = "job"
Downloaded = list[tuple["JobFile", Path]]


@dataclass(frozen=True, slots=True)
class Download:
    """A download of files of the job `of` (name, trigger)."""

    client: Client
    of: tuple[str, str]
    force: bool
    progress: Progress | None

    def run(self, files: Sequence[JobFile], name: str, to: str | None, join: bool) -> Downloaded:
        """Download the files that match `name` to `to`; return each file with its path."""
        if len(files) > 1 and not join and not (to and _is_folder(to, name)):
            raise typer.BadParameter(
                f"{output.plural(len(files), 'file')} match {name!r}: select one with --step and --index, "
                "concatenate them with --join, or write them into a folder with --to FOLDER/"
            )
        if to == STDOUT:
            self._copy(files, sys.stdout.buffer)
            sys.stdout.buffer.flush()
            return [(file, Path(STDOUT)) for file in files]
        if join:
            return self._join(files, to)
        if to and not _is_folder(to, name):
            return [(files[0], self._download(files[0], Path(to)))]
        return self._into_folder(files, Path(to) if to else CURRENT_FOLDER)

    def _into_folder(self, files: Sequence[JobFile], folder: Path) -> Downloaded:
        """Check all target paths before the first download."""
        paths = [path_inside(folder, name) for name in target_names(files)]
        for path in paths:
            check_target(path, force=self.force)
        return [(file, self._download(file, path)) for file, path in zip(files, paths, strict=True)]

    def _join(self, files: Sequence[JobFile], to: str | None) -> Downloaded:
        if not to or _is_folder(to):
            raise typer.BadParameter("must be a single file, or -, with --join", param_hint="--to")
        with new_file(Path(to), force=self.force) as out:
            self._copy(files, out)
        return [(file, Path(to)) for file in files]

    def _download(self, file: JobFile, path: Path) -> Path:
        return self.client.download(file, path, force=self.force, of=self.of, progress=self.progress)

    def _copy(self, files: Sequence[JobFile], out: BinaryIO) -> None:
        for file in files:
            self.client.download_into(file, out, of=self.of, progress=self.progress)


def target_names(files: Sequence[JobFile]) -> list[str]:
    """Return a distinct relative path for each file.

    A file keeps its own name. Files of the same name go into folders named after the task index. If paths
    still clash, because several steps are involved, all files go into folders by step and index.
    """
    by_step = [_name_by_step(file) for file in files]
    for names in (_names_by_index(files), by_step):
        if not any(_clashes(names)):
            return names
    raise BadFile(
        f"the files {next(_clashes(by_step))!r} cannot be written into one folder: select fewer with --step, "
        "--index or another pattern"
    )


def _names_by_index(files: Sequence[JobFile]) -> list[str]:
    own = [_own_name(file) for file in files]
    repeated = {name for name, count in Counter(own).items() if count > 1}
    return [
        f"{file.index}/{name}" if name in repeated and file.index is not None else name
        for file, name in zip(files, own, strict=True)
    ]


def _name_by_step(file: JobFile) -> str:
    if file.step_name is None:
        return f"{_JOB_INPUTS_FOLDER}/{_own_name(file)}"
    return f"{file.step_name}/{file.index}/{_own_name(file)}"


def _own_name(file: JobFile) -> str:
    return PurePosixPath(file.name).as_posix()


def _clashes(names: Sequence[str]) -> Iterator[str]:
    """Yield names that occur twice, or that are both a file and a folder of another file."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            yield name
        seen.add(name)
    for name in names:
        yield from (folder for each in PurePosixPath(name).parents if (folder := each.as_posix()) in seen)


def _is_folder(to: str, name: str = "") -> bool:
    """Whether `to` is a folder; with a pattern it always is, even if only one file matches."""
    if to == STDOUT:
        return False
    return has_wildcard(name) or to.endswith(("/", os.sep)) or Path(to).is_dir()
