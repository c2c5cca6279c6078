"""Split one input of a step among its tasks at byte offsets that are computed when the step opens."""

from __future__ import annotations

import hashlib
import struct
from typing import Any

from shardmill.aws.files import Head, ObjectChanged, ObjectRefused, Place
from shardmill.engine.errors import CannotOpen, FileUnavailable, MillError
from shardmill.engine.files import join, keys, units
from shardmill.engine.files.held_attempt import HeldAttempt
from shardmill.engine.files.sources import Source, Upstream, sources
from shardmill.engine.mill import Mill
from shardmill.model import split
from shardmill.model.definition.fields import StepDefine
from shardmill.model.files import File, Partition
from shardmill.model.transfers import Fetch
from shardmill.store.rows import StepRow

MAX_PARTS = 10_000
_NUMBER = struct.Struct(">Q")
_MB = 2**20


def store_cuts(mill: Mill, step: StepRow, spec: StepDefine, wanted: int) -> tuple[int, dict[str, Any]]:
    """Split the input of a step. Returns the number of parts, and the object: where it is, size and cuts."""
    assert spec.partition is not None
    file = _input(step, spec)
    source = _source(mill, step, file)
    place = source.place
    try:
        head = mill.files.head(place)
        if not head:
            raise CannotOpen(f"the input {file.name!r} to split does not exist: {place.key}")
        if spec.partition.by_units:
            counted, found = units.even_cuts(mill, step.job_id, source.place, head, spec.partition, wanted)
        else:
            counted, found = None, _cuts(mill, source, head, spec.partition, wanted)
    except (split.SplitError, ObjectRefused) as error:
        raise CannotOpen(f"the input {file.name!r} cannot be split: {error}") from error
    except ObjectChanged as error:
        raise CannotOpen(f"the input {file.name!r} changed while it was being split") from error
    # A concurrent open of the step may see another version of the object and compute other cuts.
    fingerprint = hashlib.sha256(head.etag.encode()).hexdigest()[:16]
    key = keys.cuts(step.job_id, step.run, step.index, fingerprint)
    mill.files.write(key, b"".join(map(_NUMBER.pack, found)))
    known = head.size if spec.partition.index == "bytes" else _units(spec.partition, source)
    total = known if counted is None else counted
    stored = {"bucket": place.bucket, "key": place.key, "etag": head.etag, "cuts": key, "size": head.size}
    return len(found) - 1, stored | ({} if total is None else {"units": total})


def _cuts(mill: Mill, source: Source, head: Head, partition: Partition, wanted: int) -> list[int]:
    limit = partition.max_part_size_mb
    count = split.part_count(head.size, totalwork=wanted, max_part_bytes=limit * _MB if limit else None)
    known = _units(partition, source)
    count = min(count, max(1, known)) if known is not None else count
    if count > MAX_PARTS:
        raise CannotOpen(
            f"the input would have {count} parts; the maximum is {MAX_PARTS}: use a larger maxPartSizeMb"
        )

    def read(first: int, length: int) -> bytes:
        return mill.files.read(source.place, first, length, head.etag)

    start = read(0, min(split.HEAD_BYTES, head.size)) if head.size else b""
    split.check_splittable(source.name, start)
    return split.distinct(split.cuts(read, head.size, count, _kind(partition, start)))


def _input(step: StepRow, spec: StepDefine) -> File:
    assert spec.partition is not None
    named = [file for file in spec.inputs if file.name == spec.partition.input]
    try:
        return HeldAttempt(step, 0, 0).files(named)[0]
    except FileUnavailable as error:
        raise CannotOpen(str(error)) from error


def _units(partition: Partition, source: Source) -> int | None:
    """The number of lines or records, if the output's index or `totalIndex` says it."""
    indexed = source.indexed or {}
    return indexed.get("units") if indexed.get("by") == partition.index else partition.total_index


def _source(mill: Mill, step: StepRow, file: File) -> Source:
    if file.url and file.name not in step.context.get("given", {}):
        raise CannotOpen(f"the input {file.name!r} has a url and cannot be split; copy it to S3 first")
    upstream = Upstream(mill, step)
    try:
        found = sources(upstream, 0, file)
    except MillError as error:
        raise CannotOpen(str(error)) from error
    if len(found) > 1 and file.pattern and file.origin:
        producer = upstream.producer(file.origin)
        assert producer is not None  # it has files
        return join.join(mill, producer, file.name, found)
    if len(found) != 1:
        raise CannotOpen(f"the input {file.name!r} to split has {len(found)} files; it must be one file")
    return found[0]


def _kind(partition: Partition, start: bytes) -> split.Kind:
    if partition.index == "bytes":
        return split.BYTES
    return split.LINE if partition.index == "line" else split.record_kind(start, partition.options)


def fetch_part(mill: Mill, held: HeldAttempt, file: File) -> Fetch:
    """The download of the part of the input that a task reads."""
    stored = held.step.context["split"]
    part = held.rank + held.step.settings.start_shard_id
    cuts = mill.files.read(mill.files.own(stored["cuts"]), part * _NUMBER.size, 2 * _NUMBER.size)
    first, end = (number for (number,) in _NUMBER.iter_unpack(cuts))
    place = Place(stored["bucket"], stored["key"])
    return Fetch(name=file.name, url=mill.files.get_url(place), etag=stored["etag"], first=first, end=end)
