"""Parts of a split are whole records found with few reads, for any object and reader."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from threading import Lock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.model.split import (
    BYTES,
    FASTA,
    FASTQ,
    LINE,
    Kind,
    cuts,
    distinct,
    find_cut,
    nominal,
    part_count,
    record_kind,
    separated_by,
)

laws = settings(max_examples=200, deadline=None)
GIGABYTE = 1_000_000_000


@dataclass
class Meter:
    """Reads an object, and counts."""

    content: Callable[[int, int], bytes]
    lengths: list[int] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)

    def __call__(self, offset: int, length: int) -> bytes:
        assert offset >= 0
        assert length > 0
        with self.lock:
            self.lengths.append(length)
        return self.content(offset, length)


@dataclass(frozen=True)
class Example:
    """An object made of records, so that its true boundaries are known."""

    kind: Kind
    records: list[bytes]

    @property
    def data(self) -> bytes:
        return b"".join(self.records)

    @property
    def boundaries(self) -> list[int]:
        return [0, *accumulate(map(len, self.records))]

    @property
    def longest(self) -> int:
        return max(map(len, self.records), default=0)

    def first(self, position: int) -> int:
        return next(each for each in self.boundaries if each >= position)

    def meter(self) -> Meter:
        data = self.data
        return Meter(lambda offset, length: data[offset : offset + length])


def unended(records: list[bytes]) -> list[bytes]:
    """The same, with no newline at the very end."""
    *others, last = records
    return [each for each in (*others, last.removesuffix(b"\n").removesuffix(b"\r")) if each]


def either_end(kind: Kind, records: st.SearchStrategy[list[bytes]]) -> st.SearchStrategy[Example]:
    return st.builds(
        lambda each, cut: Example(kind, unended(each) if cut and each else each), records, st.booleans()
    )


newlines = st.sampled_from([b"\n", b"\r\n"])
lengths = st.one_of(st.integers(0, 12), st.integers(0, 12), st.integers(100, 2_000))
words = st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), max_size=12).map(str.encode)
letters = st.builds(
    lambda length, some: (some * length)[:length], lengths, st.sampled_from([b"ACGTN", b"gattaca"])
)


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    return draw(words) * draw(st.one_of(st.just(1), st.integers(0, 60))) + draw(newlines)


@st.composite
def fasta(draw: st.DrawFn) -> bytes:
    end = draw(newlines)
    sequence = draw(letters)
    width = draw(st.integers(1, 80))
    wrapped = [sequence[at : at + width] for at in range(0, len(sequence), width)]
    return end.join([b">" + draw(words), *wrapped, b""])


@st.composite
def fastq(draw: st.DrawFn) -> bytes:
    end = draw(newlines)
    sequence = draw(letters)
    nasty = draw(st.sampled_from([b"@", b"+", b"@+", b"+@", b"I", b"@@ACGT+", b"!~"]))
    quality = (nasty * len(sequence))[: len(sequence)]
    name = draw(words)
    return end.join([b"@" + name, sequence, b"+" + draw(st.sampled_from([b"", name])), quality, b""])


@st.composite
def separated(draw: st.DrawFn) -> Example:
    text = draw(st.sampled_from(["//", "", "=+= .*", "§", "END"]))
    body = lines().filter(lambda line: line.rstrip(b"\r\n") != text.encode())
    record = st.builds(
        lambda inner, end: b"".join(inner) + text.encode() + end, st.lists(body, max_size=4), newlines
    )
    records = draw(st.lists(record, max_size=8))
    tail = b"".join(draw(st.lists(body, max_size=3)))
    whole = [each for each in (*records, tail) if each]
    ended = draw(st.booleans())
    return Example(separated_by(text), whole if ended or not whole else unended(whole))


by_line = either_end(LINE, st.lists(lines(), max_size=40))
by_fasta = st.builds(
    lambda example, before: Example(FASTA, [*([before] if before else []), *example.records]),
    either_end(FASTA, st.lists(fasta(), max_size=12)),
    st.sampled_from([b"", b"", b"\n", b"; a comment\n", b"text > before\r\n"]),
)
by_fastq = either_end(FASTQ, st.lists(fastq(), max_size=12))
by_byte = st.binary(max_size=200).map(lambda data: Example(BYTES, [bytes([each]) for each in data]))
patterned = st.one_of(by_line, by_fasta, separated())
examples = st.one_of(patterned, by_fastq, by_byte)
windows = st.one_of(st.integers(1, 6), st.integers(1, 40), st.just(65_536))
parts_of = st.integers(1, 30)


@laws
@given(examples, parts_of, windows, st.integers(1, 8))
def test_the_parts_are_whole_records_and_together_the_object(
    example: Example, parts: int, window: int, threads: int
) -> None:
    data = example.data
    found = cuts(example.meter(), len(data), parts, example.kind, threads=threads, window=window)
    places = nominal(len(data), parts)
    assert found == [0, *(example.first(place) for place in places), len(data)]
    assert b"".join(data[begin:end] for begin, end in pairwise(found)) == data
    kept = distinct(found)
    assert b"".join(data[begin:end] for begin, end in pairwise(kept)) == data
    assert set(kept) == set(found)
    assert kept == [0, 0] or len(set(kept)) == len(kept)


@laws
@given(examples, st.data(), windows)
def test_a_cut_is_the_first_boundary_from_anywhere(
    example: Example, data: st.DataObject, window: int
) -> None:
    read, size = example.meter(), len(example.data)
    start = data.draw(st.integers(0, size))
    for position in range(start, min(size, start + 60) + 1):
        assert find_cut(read, size, position, example.kind, window=window) == example.first(position)


@laws
@given(by_fastq.filter(lambda example: example.records != []), st.integers(0, 300))
def test_four_line_fastq_is_recognised_by_any_part_of_its_beginning(example: Example, seen: int) -> None:
    assert record_kind(example.data[: seen + 1], None) == FASTQ
    assert record_kind(example.data[:seen], "fastq") == FASTQ


@laws
@given(patterned, parts_of, windows)
def test_cuts_read_each_byte_once_at_most_and_little_of_it(example: Example, parts: int, window: int) -> None:
    meter = example.meter()
    size = len(example.data)
    cuts(meter, size, parts, example.kind, window=window)
    context = 1 + example.kind.before
    assert sum(meter.lengths) <= size + parts * context
    assert sum(meter.lengths) <= parts * (window + context + 2 * example.longest)
    assert len(meter.lengths) <= parts * (1 + (example.longest // window + 1).bit_length())


@laws
@given(by_fastq, parts_of, windows)
def test_fastq_reads_no_more_than_two_records_a_cut_show(example: Example, parts: int, window: int) -> None:
    meter = example.meter()
    cuts(meter, len(example.data), parts, FASTQ, window=window)
    needed = 2 * example.longest + 2
    assert sum(meter.lengths) <= parts * (window + 2 * needed)
    assert len(meter.lengths) <= parts * (1 + (needed // window + 1).bit_length())


@settings(max_examples=30, deadline=None)
@given(
    st.integers(20_000, 100_000),
    st.integers(2, 40),
    st.integers(16, 512),
    st.sampled_from(["line", "fasta", "fastq", "separator"]),
)
def test_a_record_longer_than_many_parts_is_read_a_few_times_at_most(
    length: int, parts: int, window: int, name: str
) -> None:
    # Of FASTQ, cuts before each of the four lines read 2, 4, 3 and 3 records; to find the lines takes 2 more.
    giant = {
        "line": (LINE, b"x" * length + b"\n", 1),
        "fasta": (FASTA, b">giant\n" + b"ACGTACGTA\n" * (length // 10), 1),
        "separator": (separated_by("//"), b"/ /\n" * (length // 4) + b"//\r\n", 1),
        "fastq": (FASTQ, b"@giant\n" + b"A" * length + b"\n+\n" + b"@" * length + b"\n", 14),
    }
    kind, record, times = giant[name]
    example = Example(kind, [record] * 8)
    size = len(example.data)
    meter = example.meter()
    found = cuts(meter, size, parts, kind, window=window)
    assert found == [0, *(example.first(place) for place in nominal(size, parts)), size]
    assert sum(meter.lengths) <= times * size + parts * 2 * window
    single = example.meter()
    assert find_cut(single, size, 1, kind, window=window) == len(record)
    shown = (2 if kind == FASTQ else 1) * len(record)
    assert sum(single.lengths) <= 2 * shown + 2 * window
    assert len(single.lengths) <= 2 + (shown // window).bit_length()


@laws
@given(st.integers(0, 10**15), st.integers(1, 200))
def test_nominal_parts_differ_by_a_byte_and_the_larger_come_first(size: int, parts: int) -> None:
    sizes = [end - begin for begin, end in pairwise([0, *nominal(size, parts), size])]
    assert len(sizes) == parts
    assert sum(sizes) == size
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] - sizes[-1] <= 1


@laws
@given(
    st.integers(0, 10**12),
    st.none() | st.integers(1, 10**6),
    st.none() | st.integers(1, 10**9),
)
def test_the_number_of_parts(size: int, totalwork: int | None, limit: int | None) -> None:
    count = part_count(size, totalwork=totalwork, max_part_bytes=limit)
    assert 1 <= count <= max(1, size)
    assert count >= min(size, totalwork or 1)
    assert limit is None or count * limit >= size
    one_less = count - 1
    assert one_less < max(totalwork or 1, 1) or (limit is not None and one_less * limit < size)


WIDTH = 100
VAST = {
    LINE: b"%099d\n",
    FASTA: b">%038d\n" + b"ACGTACGTACGTACGTACGTACGTACGTA\n" * 2,
    FASTQ: b"@%018d\n" + b"GATTACA" * 5 + b"GAT\n+\n" + b"@+" * 19 + b"\n",
    separated_by("//"): b"LOCUS %089d\n//\r\n",
}


def vast(template: bytes, size: int) -> Meter:
    """An object of any size that is made where it is read: record after record of a hundred bytes."""
    assert len(template % 0) == WIDTH

    def content(offset: int, length: int) -> bytes:
        end = min(size, offset + length)
        first = offset // WIDTH
        made = b"".join(template % number for number in range(first, -(-end // WIDTH)))
        return made[offset - first * WIDTH : end - first * WIDTH]

    return Meter(content)


@pytest.mark.parametrize("kind", VAST, ids=lambda kind: kind.name)
@pytest.mark.parametrize("parts", [2, 16, 101])
def test_reads_grow_with_the_parts_and_not_with_the_size(kind: Kind, parts: int) -> None:
    window = 16_384
    for size in (GIGABYTE // 100, 10 * GIGABYTE, 1_000 * GIGABYTE):
        meter = vast(VAST[kind], size)
        found = cuts(meter, size, parts, kind, window=window)
        assert found == [0, *(-(-place // WIDTH) * WIDTH for place in nominal(size, parts)), size]
        assert len(meter.lengths) == parts - 1
        assert max(meter.lengths) <= window + 1 + kind.before


def test_ten_gigabytes_in_a_thousand_parts_cost_less_than_a_percent() -> None:
    meter = vast(VAST[LINE], 10 * GIGABYTE)
    found = cuts(meter, 10 * GIGABYTE, 1_000, LINE)
    assert len(distinct(found)) == 1_001
    assert len(meter.lengths) == 999
    assert sum(meter.lengths) < 10 * GIGABYTE / 100
