"""Fetching files of a Job to where somebody wants them: a file, a folder, standard output."""

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
from shardmill.client.transfer import check_free, inside, whole_file
from shardmill.model.files import has_wildcard

if TYPE_CHECKING:
    from typing import BinaryIO

    from shardmill.client import Client
    from shardmill.client.transfer import Progress
    from shardmill.model.transfers import JobFile

STDOUT = "-"
HERE = Path(".")
Fetched = list[tuple["JobFile", Path]]


@dataclass(frozen=True, slots=True)
class Errand:
    """`of`: the name and trigger of the Job."""

    client: Client
    of: tuple[str, str]
    force: bool
    progress: Progress | None

    def run(self, files: Sequence[JobFile], name: str, to: str | None, join: bool) -> Fetched:
        """Fetch files that were asked for by a name; where each of them is then."""
        if len(files) > 1 and not join and not (to and _is_folder(to, name)):
            raise typer.BadParameter(
                f"{output.many(len(files), 'file')} fit {name!r}: choose with --step and --index, or --join "
                "them, or put them into a folder with --to FOLDER/"
            )
        if to == STDOUT:
            self._copy(files, sys.stdout.buffer)
            sys.stdout.buffer.flush()
            return [(file, Path(STDOUT)) for file in files]
        if join:
            return self._joined(files, to)
        if to and not _is_folder(to, name):
            return [(files[0], self._fetched(files[0], Path(to)))]
        return self._into(files, Path(to) if to else HERE)

    def _into(self, files: Sequence[JobFile], folder: Path) -> Fetched:
        """All places are looked at before the first file is fetched."""
        paths = [inside(folder, each) for each in names(files)]
        for path in paths:
            check_free(path, force=self.force)
        return [(file, self._fetched(file, path)) for file, path in zip(files, paths, strict=True)]

    def _joined(self, files: Sequence[JobFile], to: str | None) -> Fetched:
        if not to or _is_folder(to):
            raise typer.BadParameter("with --join it is the one file to write, or -", param_hint="--to")
        with whole_file(Path(to), force=self.force) as out:
            self._copy(files, out)
        return [(file, Path(to)) for file in files]

    def _fetched(self, file: JobFile, path: Path) -> Path:
        return self.client.download(file, path, force=self.force, of=self.of, progress=self.progress)

    def _copy(self, files: Sequence[JobFile], out: BinaryIO) -> None:
        for file in files:
            self.client.download_into(file, out, of=self.of, progress=self.progress)


def _is_folder(to: str, name: str = "") -> bool:
    """Whether a path is that of a folder; what a pattern fits goes into one, be it one file only."""
    if to == STDOUT:
        return False
    return has_wildcard(name) or to.endswith(("/", os.sep)) or Path(to).is_dir()


if TYPE_CHECKING:
    from shardmill.model.transfers import JobFile

_CAME_WITH_THE_JOB = "job"


def names(files: Sequence[JobFile]) -> list[str]:
    """A name for each: its own; where that is another's too, in a folder named by the task's index.

    If that is not enough, since several steps are in it, all are in folders by step and index.
    """
    by_step = [_by_step(file) for file in files]
    for found in (_by_index(files), by_step):
        if not any(_clashes(found)):
            return found
    raise BadFile(
        f"the files {next(_clashes(by_step))!r} cannot all be in one folder: choose some with --step, "
        "--index or another pattern"
    )


def _by_index(files: Sequence[JobFile]) -> list[str]:
    own = [_own(file) for file in files]
    often = {name for name, times in Counter(own).items() if times > 1}
    return [
        f"{file.index}/{name}" if name in often and file.index is not None else name
        for file, name in zip(files, own, strict=True)
    ]


def _by_step(file: JobFile) -> str:
    if file.step_name is None:
        return f"{_CAME_WITH_THE_JOB}/{_own(file)}"
    return f"{file.step_name}/{file.index}/{_own(file)}"


def _own(file: JobFile) -> str:
    return PurePosixPath(file.name).as_posix()


def _clashes(found: Sequence[str]) -> Iterator[str]:
    """Names that are there twice, or are at once that of a file and of a folder with others."""
    seen: set[str] = set()
    for name in found:
        if name in seen:
            yield name
        seen.add(name)
    for name in found:
        yield from (folder for each in PurePosixPath(name).parents if (folder := each.as_posix()) in seen)
