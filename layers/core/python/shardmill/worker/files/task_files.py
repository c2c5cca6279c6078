"""A task's files around its run: fetched before it, stored after it, and `@name` in its words made a path."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from shardmill.model.definition.command import Command
from shardmill.model.files import File
from shardmill.model.job import TaskProgress
from shardmill.model.transfers import Fetch, Prepared, Stored
from shardmill.model.worker import Lease
from shardmill.worker.files.cache import Cache
from shardmill.worker.files.indexing import index
from shardmill.worker.files.safe_paths import Traits, chosen, traits
from shardmill.worker.files.transfer import Pace, TransferError, fetch_all, store_all
from shardmill.worker.retry import a_few_times
from shardmill.worker.task.channel import Live
from shardmill.worker.task.limits import Bounds
from shardmill.worker.task.programs import arguments
from shardmill.worker.task.workdir import Place
from shardmill.worker.transport.base import FileDesk, Refused, TransportError

_MOST_SAID = 200


@dataclass(frozen=True, slots=True)
class Errands:
    """What a worker fetches and stores with: whom it asks, its reference data, the hosts it may go to."""

    desk: FileDesk
    cache: Cache | None = None
    allow_hosts: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Supplied:
    """A task with all it needs, the files that it is to make, and those that were brought to it."""

    lease: Lease
    outputs: Sequence[File] = ()
    brought: Mapping[str, Traits] = field(default_factory=dict)


def supply(lease: Lease, errands: Errands, place: Place, bounds: Bounds, live: Live) -> Supplied:
    """Bring what a task needs into its folder; raises TransferError."""

    def ask() -> Prepared:
        return a_few_times(lambda: errands.desk.prepare(lease))

    try:
        prepared = ask()
    except TransportError as error:
        raise TransferError(error.detail if isinstance(error, Refused) else str(error)) from error
    fetch_all(
        prepared.files,
        place.work,
        cache=errands.cache,
        allow_hosts=errands.allow_hosts,
        stop=bounds.stop,
        progress=_teller(live),
        renew=lambda: ask().files,
        give=place.give if place.user else None,
        pace=_pace(bounds),
    )
    names = _join(prepared.files, place)
    changes: dict[str, object] = {"environ": {**lease.environ, **prepared.environ}}
    if lease.command:
        changes["command"] = _with_paths(lease.command, names)
    brought = {name: traits(place.work / name) for name in names}
    return Supplied(lease.model_copy(update=changes), prepared.outputs, brought)


def deliver(supplied: Supplied, errands: Errands, place: Place, bounds: Bounds, live: Live) -> list[Stored]:
    """Store what a task made; raises TransferError."""
    counted = {
        output.name: index(place.work, output.path, file.upload_index)
        for file in supplied.outputs
        if file.upload_index
        for output in chosen([file], place.work, supplied.brought)
    }
    stored = store_all(
        supplied.lease,
        supplied.outputs,
        place.work,
        errands.desk,
        stop=bounds.stop,
        progress=_teller(live),
        brought=supplied.brought,
        pace=_pace(bounds),
    )
    return [each.model_copy(update={"indexed": counted.get(each.name)}) for each in stored]


def _pace(bounds: Bounds) -> Pace:
    return Pace(deadline=bounds.deadline) if bounds.deadline is not None else Pace()


def _teller(live: Live) -> Callable[[str], None]:
    def tell(text: str) -> None:
        live.progress = TaskProgress(message=text[:_MOST_SAID])

    return tell


def _join(files: Sequence[Fetch], place: Place) -> list[str]:
    """Make one file of those that belong together, in their order; the names of all there are then."""
    names: dict[str, None] = {}
    for file in files:
        source = place.work / file.name
        if file.into is None:
            if source.exists():
                names[file.name] = None
            continue
        target = place.work / file.into
        new = file.into not in names
        with target.open("xb" if new else "ab") as joined, source.open("rb") as part:
            shutil.copyfileobj(part, joined, 2**20)
        source.unlink()
        if new:
            place.give(target)
        names[file.into] = None
    return list(names)


def _with_paths(command: Command, names: Sequence[str]) -> Command:
    """`@name`, as a word of its own, becomes the path of that file; a pattern those of all that it fits."""
    words = [path for word in arguments(command) for path in _paths(word, names)]
    return command.model_copy(update={"args": None, "args_array": words})


def _paths(word: str, names: Sequence[str]) -> list[str]:
    wanted = word.removeprefix("@")
    if wanted == word or not wanted:
        return [word]
    fitting = [name for name in names if name == wanted] or [
        name for name in names if fnmatchcase(name, wanted)
    ]
    return [f"./{name}" if name.startswith("-") else name for name in fitting] or [word]
