"""Fetching files of a Job to where somebody wants them: a file, a folder, standard output."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from shardmill.cli import output
from shardmill.cli.placing import names
from shardmill.client.places import check_free, inside, whole_file
from shardmill.model.files import has_wildcard

if TYPE_CHECKING:
    from typing import BinaryIO

    from shardmill.client import Client
    from shardmill.client.store import Progress
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
