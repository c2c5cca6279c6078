"""The files of a task as the API shows them: names of this task, and the sizes of the files themselves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shardmill.engine.errors import MillError
from shardmill.engine.files.held_attempt import HeldAttempt
from shardmill.engine.files.sources import Source, Upstream, sources
from shardmill.engine.mill import Mill
from shardmill.model.files import File, RunFile, fits, has_wildcard
from shardmill.model.transfers import Indexed, Stored
from shardmill.store.rows import StepRow

MAX_PRODUCERS = 1_000
"""Sizes of files that a step with more tasks produced are shown only for names without a pattern."""


def input_files(mill: Mill, step: StepRow, rank: int, listed: Sequence[File]) -> list[RunFile]:
    """The inputs or predata of a task that has run, with the sizes that can be found."""
    upstream = Upstream(mill, step)
    return [_input(upstream, rank, file) for file in _rendered(step, rank, listed)]


def output_files(step: StepRow, rank: int, listed: Sequence[File], stored: Iterable[Stored]) -> list[RunFile]:
    """The outputs of a task with the sizes and units of the files that it stored."""
    kept = list(stored)
    return [
        _output(file, [each for each in kept if fits(each.name, file.upload_name or file.name)])
        for file in _rendered(step, rank, listed)
    ]


def _rendered(step: StepRow, rank: int, listed: Sequence[File]) -> Sequence[File]:
    try:
        return HeldAttempt(step, rank, 0).files(listed)
    except MillError:  # its templates cannot be rendered, and no attempt succeeded
        return listed


def _output(file: File, found: Sequence[Stored]) -> RunFile:
    if not found:
        return RunFile.of(file)
    counted = [each.indexed for each in found if each.indexed]
    return RunFile.of(file, sum(each.size for each in found), _units(counted))


def _units(counted: Sequence[Indexed]) -> int | None:
    return sum(each.units for each in counted) if counted else None


def _input(upstream: Upstream, rank: int, file: File) -> RunFile:
    split = upstream.step.context.get("split", {}) if _is_split(upstream.step, file) else {}
    if "size" in split:
        return RunFile.of(file, split["size"], split.get("units"))
    if file.url and file.name not in upstream.step.context.get("given", {}):
        return RunFile.of(file)
    try:
        found = [] if _too_many(upstream, file) else sources(upstream, rank, file)
        sizes = [_size(upstream.mill, source) for source in found]
    except MillError:  # such as a file that was deleted since
        return RunFile.of(file)
    counted = [Indexed.model_validate(source.indexed) for source in found if source.indexed]
    known = [size for size in sizes if size is not None]
    return RunFile.of(file, sum(known), _units(counted)) if known else RunFile.of(file)


def _is_split(step: StepRow, file: File) -> bool:
    partition = step.define.partition
    return partition is not None and fits(file.name, partition.input)


def _too_many(upstream: Upstream, file: File) -> bool:
    if not file.origin or not (file.pattern or has_wildcard(file.name)):
        return False
    producer = upstream.producer(file.origin)
    return producer is not None and producer.total > MAX_PRODUCERS


def _size(mill: Mill, source: Source) -> int | None:
    if source.size is not None:
        return source.size
    head = mill.files.head(source.place)
    return head.size if head else None
