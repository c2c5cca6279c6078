"""The file of a node, or a part of it that is named by an index: its bytes, or an address at S3."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import NamedTuple

from shardmill.aws.files import Head, ObjectChanged, ObjectRefused, Place
from shardmill.engine.errors import BadRequest, CannotOpen, FileUnavailable
from shardmill.engine.files import join, keys, units
from shardmill.engine.mill import Mill
from shardmill.engine.nodes.errors import NodeWithoutFile
from shardmill.model.awe.files import INDEXES
from shardmill.model.awe.nodes import parse_part, partition_by
from shardmill.model.split import SplitError


class PartWanted(NamedTuple):
    """A part of a file: `4-6` by `line`. With `chunk`, the units of `size` have this many bytes."""

    by: str
    part: str
    chunk: int = 0


@dataclass(frozen=True, slots=True)
class Download:
    """The file of a node, or the bytes [first, end) of it."""

    mill: Mill
    job_id: str
    place: Place
    part: tuple[Head, int, int] | None = None

    def address(self) -> str:
        """A presigned address at S3."""
        if not self.part:
            return self.mill.files.get_url(self.place)
        return range_address(self.mill, self.job_id, self.place, *self.part)

    def content(self, most: int) -> bytes | None:
        """The bytes themselves; None if there are more than `most`."""
        head, first, end = self.part or (self.mill.files.head(self.place), 0, None)
        if not head:
            raise NodeWithoutFile
        length = (head.size if end is None else end) - first
        if length > most:
            return None
        return self.mill.files.read(self.place, first, length, head.etag) if length else b""


def download(mill: Mill, job_id: str, place: Place, wanted: PartWanted | None) -> Download:
    """An object, or a part of it. Raises BadRequest if there is no such part."""
    if wanted is None:
        return Download(mill, job_id, place)
    head = mill.files.head(place)
    if not head:
        raise NodeWithoutFile
    return Download(mill, job_id, place, (head, *_range(mill, job_id, place, head, wanted)))


def range_address(mill: Mill, job_id: str, place: Place, head: Head, first: int, end: int) -> str:
    """A presigned address of the bytes [first, end) of an object.

    A presigned address cannot contain a range, so S3 copies the bytes to an object of their own; the copy of
    an earlier call is used again.
    """
    if (first, end) == (0, head.size):
        return mill.files.get_url(place)
    text = "\0".join((place.bucket, place.key, head.etag, f"{first}-{end}"))
    key = keys.byte_range(place.key, job_id, hashlib.sha256(text.encode()).hexdigest()[:32])
    known = mill.files.head(mill.files.own(key))
    if not known or known.size != end - first:
        join.write_pieces(mill, key, [(place, first, end)])
    return mill.files.get_url(mill.files.own(key))


def count_units(mill: Mill, job_id: str, place: Place, head: Head, index: str) -> int:
    """Make an index of an object if it has none; return its number of units. Raises FileUnavailable."""
    partition = partition_by(index)
    if not partition:
        raise _unknown_index(index)
    try:
        return units.stored_index(mill, job_id, place, head, partition)[1]
    except (SplitError, ObjectRefused, ObjectChanged, CannotOpen) as error:
        raise FileUnavailable(f"the file cannot be indexed by {index}: {error}") from error


def _range(mill: Mill, job_id: str, place: Place, head: Head, wanted: PartWanted) -> tuple[int, int]:
    numbers, partition = parse_part(wanted.part), partition_by(wanted.by)
    if not partition:
        raise _unknown_index(wanted.by)
    if not numbers:
        raise BadRequest(f"part must be a number or two such as 4-6, not {wanted.part[:64]!r}")
    if wanted.chunk and wanted.by == "size":
        first, end = (numbers[0] - 1) * wanted.chunk, min(numbers[1] * wanted.chunk, head.size)
        found = (first, end) if 0 <= first < end else None
    else:
        try:
            found = units.range_of_units(mill, job_id, place, head, partition, *numbers)
        except (SplitError, ObjectRefused, ObjectChanged, CannotOpen) as error:
            raise FileUnavailable(f"the file cannot be indexed by {wanted.by}: {error}") from error
    if not found:
        raise BadRequest(f"the file has no part {wanted.part} by {wanted.by}")
    return found


def _unknown_index(index: str) -> BadRequest:
    return BadRequest(f"there is no index {index[:64]!r}; use one of {', '.join(INDEXES)}")
