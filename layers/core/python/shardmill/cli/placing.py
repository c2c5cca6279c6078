"""Under which names several files of a Job go into one folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from shardmill.client.errors import BadFile

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
