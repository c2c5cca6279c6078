"""Indexes of objects: the offsets of their lines, records or chunks, stored in S3 when first needed."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator

from shardmill.aws.files import Head, Place
from shardmill.engine.errors import CannotOpen
from shardmill.engine.files import keys
from shardmill.engine.mill import Mill
from shardmill.model import split
from shardmill.model.files import Partition

MAX_SCANNED_BYTES = 2 << 30
MAX_UNITS = 4_000_000
MAX_PARTS = 10_000
_NUMBER = struct.Struct(">Q")
_WINDOW = 8 << 20
_MB = 1 << 20


def even_cuts(
    mill: Mill, job_id: str, place: Place, head: Head, partition: Partition, wanted: int
) -> tuple[int, list[int]]:
    """The number of units of an object, and the offsets that give tasks equal numbers of them.

    The number of tasks is `wanted`, or more if a task would have more than `maxUnits`; at most one per unit.
    """
    key, total = stored_index(mill, job_id, place, head, partition)
    count = part_count(total, wanted=wanted, max_units=partition.max_units)
    if count > MAX_PARTS:
        raise CannotOpen(f"the input would have {count} parts; the maximum is {MAX_PARTS}: use larger parts")
    if count == 1:
        return total, [0, head.size]
    data = mill.files.read(mill.files.own(key), 0, (total + 1) * _NUMBER.size)
    units = [0, *split.nominal(total, count), total]
    return total, [_NUMBER.unpack_from(data, unit * _NUMBER.size)[0] for unit in units]


def part_count(total: int, *, wanted: int, max_units: int | None) -> int:
    """The number of parts of `total` units: enough for `max_units`, at least `wanted`, at most `total`."""
    by_size = -(-total // max_units) if max_units else 1
    return max(1, min(total, max(by_size, wanted)))


def range_of_units(
    mill: Mill, job_id: str, place: Place, head: Head, partition: Partition, first: int, last: int
) -> tuple[int, int] | None:
    """The bytes [first, end) of the units `first` to `last`, which count from 1; None if there are none."""
    key, total = stored_index(mill, job_id, place, head, partition)
    if not 1 <= first <= last <= total:
        return None
    size = _NUMBER.size
    data = mill.files.read(mill.files.own(key), (first - 1) * size, (last - first + 2) * size)
    return _NUMBER.unpack_from(data, 0)[0], _NUMBER.unpack_from(data, len(data) - size)[0]


def stored_index(mill: Mill, job_id: str, place: Place, head: Head, partition: Partition) -> tuple[str, int]:
    """The key of the index of an object, and its number of units; makes the index if it does not exist."""
    kind = f"{partition.index}-{partition.unit_mb or 0}-{partition.options or ''}"
    text = "\0".join((place.bucket, place.key, head.etag, kind))
    key = keys.unit_index(place.key, job_id, hashlib.sha256(text.encode()).hexdigest()[:32])
    known = mill.files.head(mill.files.own(key))
    if known:
        return key, known.size // _NUMBER.size - 1
    offsets = list(_offsets(mill, place, head, partition))
    mill.files.write(key, b"".join(map(_NUMBER.pack, offsets)))
    return key, len(offsets) - 1


def _offsets(mill: Mill, place: Place, head: Head, partition: Partition) -> Iterator[int]:
    """The offsets of the units, and the end of the object."""
    if not head.size:
        yield 0
        return

    def read(first: int, length: int) -> bytes:
        return mill.files.read(place, first, length, head.etag)

    start = read(0, min(split.HEAD_BYTES, head.size))
    split.check_splittable(place.key.rsplit("/", 1)[-1], start)
    kind = _kind(partition, start)
    if partition.unit_mb:
        count = -(-head.size // (partition.unit_mb * _MB))
        yield from split.distinct(split.cuts(read, head.size, count, kind))
        return
    if kind == split.BYTES:
        raise split.SplitError("a unit must be a chunk of bytes: set unitMb")
    if head.size > MAX_SCANNED_BYTES:
        raise split.SplitError(
            f"it has {head.size} bytes, and only {MAX_SCANNED_BYTES} can be indexed by {partition.index}; "
            "use chunks instead"
        )
    yield from _scan(read, head.size, kind)


def _kind(partition: Partition, start: bytes) -> split.Kind:
    if partition.index == "bytes":
        return split.BYTES
    if partition.index == "line":
        return split.LINE
    try:
        return split.record_kind(start, partition.options)
    except split.SplitError:
        if partition.unit_mb and not partition.options:
            return split.LINE  # chunks of a file without known records end with a line
        raise


def _scan(read: split.Read, size: int, kind: split.Kind) -> Iterator[int]:
    """The beginning of each unit, found by reading the whole object once, and the end of the object."""
    count = 0
    lines = 0
    yield 0
    first = 0
    before = b""
    while first < size:
        data = before + read(first, min(_WINDOW, size - first))
        base, first = first - len(before), first + len(data) - len(before)
        last = first >= size
        for match in kind.newline.finditer(data, len(before) - 1 if before else 0):
            at = base + match.end()
            lines += 1
            if at >= size or (kind == split.FASTQ and lines % 4):
                continue
            count += 1
            if count > MAX_UNITS:
                raise split.SplitError(f"it has more than {MAX_UNITS} units; use chunks instead")
            yield at
        # A boundary at the end of the window is seen with the next one, which begins with the last byte.
        before = b"" if last or kind != split.FASTA else data[-1:]
    yield size
