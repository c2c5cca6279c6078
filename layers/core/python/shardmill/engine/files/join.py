"""Join the files that the tasks of a step stored into one object, in the order of the tasks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from shardmill.aws.files import Place
from shardmill.engine.files import keys
from shardmill.engine.files.sources import Source
from shardmill.engine.mill import Mill
from shardmill.store.rows import StepRow

MIN_PART = 5 << 20  # the smallest part of a multipart upload, except the last
MAX_COPY = 1 << 30
"""The most that S3 copies in one call: it takes seconds, less than the time limit of a call."""

Piece = tuple[Place, int, int]
"""The bytes [first, end) of an object."""


def join(mill: Mill, producer: StepRow, name: str, parts: Sequence[Source]) -> Source:
    """Return the file made of the parts, and make it if it does not exist; repeats are harmless."""
    digest = hashlib.sha256("\0".join(part.place.key for part in parts).encode()).hexdigest()[:24]
    key = keys.joined(producer.job_id, producer.run, producer.index, digest, name)
    sizes = [part.size if part.size is not None else _size(mill, part.place) for part in parts]
    known = mill.files.head(mill.files.own(key))
    if not known or known.size != sum(sizes):
        write_pieces(
            mill, key, [(part.place, 0, size) for part, size in zip(parts, sizes, strict=True) if size]
        )
    return Source(name, mill.files.own(key), sum(sizes))


def _size(mill: Mill, place: Place) -> int:
    head = mill.files.head(place)
    return head.size if head else 0


def write_pieces(mill: Mill, key: str, pieces: Sequence[Piece]) -> None:
    """Write an object composed of pieces of other objects."""
    if sum(end - first for _, first, end in pieces) <= 2 * MIN_PART:
        mill.files.write(key, b"".join(_read(mill, piece) for piece in pieces))
        return
    upload, etags = mill.files.begin_join(key), list[str]()
    for group in part_groups(pieces):
        if len(group) == 1 and group[0][2] - group[0][1] >= MIN_PART:
            etags.append(mill.files.copy_part(key, upload, len(etags) + 1, *group[0]))
        else:
            data = b"".join(_read(mill, piece) for piece in group)
            etags.append(mill.files.add_part(key, upload, len(etags) + 1, data))
    mill.files.join_parts(key, upload, etags)


def _read(mill: Mill, piece: Piece) -> bytes:
    place, first, end = piece
    return mill.files.read(place, first, end - first)


def part_groups(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    """Divide pieces into the parts of a multipart upload: each of at least MIN_PART bytes, except the last.

    A long piece is a part of its own, which S3 copies. Short ones are put together, with the beginning of the
    long piece that follows them if they are too short.
    """
    group, size = list[Piece](), 0
    for place, first, end in pieces:
        while first < end:
            if not group and end - first >= MIN_PART:
                length = min(end - first, MAX_COPY)
                yield [(place, first, first + length)]
                first += length
                continue
            length = min(end - first, MIN_PART - size)
            group.append((place, first, first + length))
            first, size = first + length, size + length
            if size >= MIN_PART:
                yield group
                group, size = [], 0
    if group:
        yield group
