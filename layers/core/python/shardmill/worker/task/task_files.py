"""The files of a task: inputs are downloaded before it runs, outputs are uploaded after."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from shardmill.model.definition.file_arguments import expand
from shardmill.model.files import File, fits, has_wildcard
from shardmill.model.job import TaskProgress
from shardmill.model.transfers import Fetch, Prepared, Stored
from shardmill.model.worker import Lease
from shardmill.worker.files.cache import Cache
from shardmill.worker.files.indexing import index
from shardmill.worker.files.safe_paths import FileState, TransferError, file_state, select_outputs
from shardmill.worker.files.transfer import download_all, upload_all
from shardmill.worker.files.transfer_context import TransferSettings
from shardmill.worker.outcome import InvalidTask
from shardmill.worker.task.bounds import Bounds
from shardmill.worker.task.channel import LiveStatus
from shardmill.worker.task.programs import arguments
from shardmill.worker.task.workdir import TaskDir
from shardmill.worker.transport.base import FileUrls, Refused, TransportError, retry_briefly

_MAX_MESSAGE = 200


@dataclass(frozen=True, slots=True)
class FileAccess:
    """The worker's means to transfer files: presigned URLs, a cache of reference files, and allowed hosts."""

    urls: FileUrls
    cache: Cache | None = None
    allow_hosts: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class PreparedTask:
    """A task whose inputs are in its work folder, and the outputs that it must produce."""

    lease: Lease
    outputs: Sequence[File] = ()
    inputs: Mapping[str, FileState] = field(default_factory=dict)


def download_inputs(
    lease: Lease, access: FileAccess, task_dir: TaskDir, bounds: Bounds, live: LiveStatus
) -> PreparedTask:
    """Download the inputs of a task into its work folder. Raises TransferError."""

    def prepare() -> Prepared:
        return retry_briefly(lambda: access.urls.prepare(lease))

    try:
        prepared = prepare()
    except TransportError as error:
        raise TransferError(error.detail if isinstance(error, Refused) else str(error)) from error
    download_all(
        prepared.files,
        task_dir.work,
        cache=access.cache,
        allow_hosts=access.allow_hosts,
        stop=bounds.stop,
        progress=_progress_of(live),
        renew=lambda: prepare().files,
        set_owner=task_dir.set_owner if task_dir.user else None,
        settings=TransferSettings(deadline=bounds.deadline),
    )
    names = _join(prepared.files, task_dir)
    lease = lease.model_copy(update={"environ": {**lease.environ, **prepared.environ}})
    inputs = {name: file_state(task_dir.work / name) for name in names}
    absent = [name for file in prepared.files if (name := file.into or file.name) not in names]
    expected = [*absent, *(file.name for file in prepared.outputs)]
    return PreparedTask(with_paths(lease, names, expected), prepared.outputs, inputs)


def upload_outputs(
    task: PreparedTask, access: FileAccess, task_dir: TaskDir, bounds: Bounds, live: LiveStatus
) -> list[Stored]:
    """Upload the outputs of a task. Raises TransferError."""
    counted = {
        output.name: index(task_dir.work, output.path, file.upload_index)
        for file in task.outputs
        if file.upload_index
        for output in select_outputs([file], task_dir.work, task.inputs)
    }
    stored = upload_all(
        task.lease,
        task.outputs,
        task_dir.work,
        access.urls,
        stop=bounds.stop,
        progress=_progress_of(live),
        inputs=task.inputs,
        settings=TransferSettings(deadline=bounds.deadline),
    )
    return [each.model_copy(update={"indexed": counted.get(each.name)}) for each in stored]


def _progress_of(live: LiveStatus) -> Callable[[str], None]:
    def report(message: str) -> None:
        live.progress = TaskProgress(message=message[:_MAX_MESSAGE])

    return report


def _join(files: Sequence[Fetch], task_dir: TaskDir) -> list[str]:
    """Concatenate the parts of each joined file in order; return the names of all files."""
    names: dict[str, None] = {}
    for file in files:
        source = task_dir.work / file.name
        if file.into is None:
            if source.exists():
                names[file.name] = None
            continue
        target = task_dir.work / file.into
        new = file.into not in names
        with target.open("xb" if new else "ab") as joined, source.open("rb") as part:
            shutil.copyfileobj(part, joined, 2**20)
        source.unlink()
        if new:
            task_dir.set_owner(target)
        names[file.into] = None
    return list(names)


def with_paths(lease: Lease, names: Sequence[str] = (), expected: Sequence[str] = ()) -> Lease:
    """Replace `@name` in the arguments of a command by the paths of files.

    `expected`: names, or patterns, of files that do not exist, such as outputs. Raises InvalidTask if a name
    is not a file of the task.
    """
    command = lease.command
    given = arguments(command) if command else ()
    if not command or not any("@" in argument for argument in given):
        return lease

    def paths(name: str) -> list[str] | None:
        if name in names or any(fits(name, each) for each in expected):
            return [name]
        return [each for each in names if fits(each, name)] if has_wildcard(name) else None

    try:
        words = [word for argument in given for word in _relative(expand(argument, paths), argument)]
    except LookupError as error:
        message = f"@{error.args[0]} in the arguments of {command.name!r} is not a file of this task"
        raise InvalidTask(message) from None
    return lease.model_copy(
        update={"command": command.model_copy(update={"args": None, "args_array": words})}
    )


def _relative(words: Sequence[str], argument: str) -> list[str]:
    """Keep a file whose name begins with a dash from being taken for an option."""
    is_path = argument.startswith("@") and not argument.startswith("@@")
    return [f"./{word}" if is_path and word.startswith("-") else word for word in words]
