"""Reads needed to split objects of growing sizes into growing numbers of parts.

Objects are generated as they are read, so they can be larger than the memory.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.result import Result
from shardmill.model import split

_LINE = 100
_GB = 10**9


class _GeneratedObject:
    """An object with lines of 100 bytes that counts reads and bytes."""

    def __init__(self, size: int) -> None:
        self.size, self.reads, self.bytes = size, 0, 0

    def read(self, first: int, length: int) -> bytes:
        self.reads += 1
        end = min(self.size, first + length)
        self.bytes += end - first
        lines = range(first // _LINE, -(-end // _LINE))
        data = b"".join(b"%099d\n" % number for number in lines)
        start = first - lines.start * _LINE
        return data[start : start + end - first]


def measure(_: Path) -> Iterator[Result]:
    reads: dict[tuple[int, int], int] = {}
    for gigabytes, parts in ((1, 100), (10, 100), (100, 100), (10, 16), (10, 1_000), (10, 10_000)):
        source = _GeneratedObject(gigabytes * _GB)
        started = time.perf_counter()
        found = split.cuts(source.read, source.size, parts, split.LINE, threads=1)
        took = time.perf_counter() - started
        assert len(found) == parts + 1
        reads[gigabytes, parts] = source.reads
        what = f"split of {gigabytes} GB in {parts} parts"
        yield Result(f"{what}: reads per part", source.reads / parts, "x", at_most=1.1)
        yield Result(f"{what}: share of the bytes read", 100 * source.bytes / source.size, "%")
        yield Result(f"{what}: time without the network", took, "s")
    yield Result("reads for 100 GB relative to 1 GB", reads[100, 100] / reads[1, 100], "x", at_most=1.0)
