"""Parts of a multipart upload that joins files, and splits by units."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from shardmill.aws.files import Place
from shardmill.engine.files import units
from shardmill.engine.files.join import MIN_PART, Piece, part_groups
from shardmill.model import split


def _pieces(*sizes: int) -> list[Piece]:
    return [(Place("b", str(at)), 0, size) for at, size in enumerate(sizes)]


@pytest.mark.parametrize(
    "sizes", [(1,), (1, MIN_PART), (MIN_PART, 1, 2 * MIN_PART + 5), (3,) * 50, (7, 3 * MIN_PART, 9, 9)]
)
def test_parts_hold_every_byte_once_and_are_long_enough(sizes: tuple[int, ...]) -> None:
    groups = list(part_groups(_pieces(*sizes)))
    lengths = [sum(end - first for _, first, end in group) for group in groups]
    assert all(length >= MIN_PART for length in lengths[:-1])
    covered = [(place.key, at) for group in groups for place, first, end in group for at in (first, end)]
    joined = {key: sorted(at for other, at in covered if other == key) for key, _ in covered}
    assert sum(lengths) == sum(sizes)
    assert all(joined[str(at)][-1] == size for at, size in enumerate(sizes))


def test_the_number_of_parts_is_limited_by_the_units() -> None:
    assert units.part_count(10, wanted=4, max_units=None) == 4
    assert split.nominal(10, 4) == [3, 6, 8]
    assert units.part_count(10, wanted=1, max_units=3) == 4
    assert units.part_count(10, wanted=6, max_units=3) == 6
    assert units.part_count(3, wanted=8, max_units=None) == 3
    assert units.part_count(0, wanted=8, max_units=2) == 1


def _reader(data: bytes) -> Callable[[int, int], bytes]:
    return lambda first, length: data[first : first + length]


@pytest.mark.parametrize("window", [1, 2, 3, 64])
@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        (split.LINE, [b"a\n", b"\n", b"bc\n", b"end"]),
        (split.FASTA, [b">a\nAC\nGT\n", b">b\nA>C\n", b">c\n"]),
        (split.FASTQ, [b"@a\nAC\n+\n@@\n", b"@b\nG\n+\n#\n"]),
    ],
)
def test_a_scan_finds_every_unit(
    monkeypatch: pytest.MonkeyPatch, window: int, kind: split.Kind, parts: list[bytes]
) -> None:
    monkeypatch.setattr(units, "_WINDOW", window)
    data = b"".join(parts)
    found = list(units._scan(_reader(data), len(data), kind))
    assert [data[first:end] for first, end in pairwise(found)] == parts
