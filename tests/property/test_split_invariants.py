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

many_examples = settings(max_examples=200)
GIGABYTE = 1_000_000_000


@dataclass
class CountingReader:
    """Reads an object and records the length of each read."""

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

    def first_boundary(self, position: int) -> int:
        return next(each for each in self.boundaries if each >= position)

    def reader(self) -> CountingReader:
        data = self.data
        return CountingReader(lambda offset, length: data[offset : offset + length])


def without_final_newline(records: list[bytes]) -> list[bytes]:
    """Remove the newline at the end of the last record."""
    *others, last = records
    return [each for each in (*others, last.removesuffix(b"\n").removesuffix(b"\r")) if each]


def with_or_without_final_newline(
    kind: Kind, records: st.SearchStrategy[list[bytes]]
) -> st.SearchStrategy[Example]:
    return st.builds(
        lambda each, cut: Example(kind, without_final_newline(each) if cut and each else each),
        records,
        st.booleans(),
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
    symbols = draw(st.sampled_from([b"@", b"+", b"@+", b"+@", b"I", b"@@ACGT+", b"!~"]))
    quality = (symbols * len(sequence))[: len(sequence)]
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
    every = [each for each in (*records, tail) if each]
    ended = draw(st.booleans())
    return Example(separated_by(text), every if ended or not every else without_final_newline(every))


by_line = with_or_without_final_newline(LINE, st.lists(lines(), max_size=40))
by_fasta = st.builds(
    lambda example, before: Example(FASTA, [*([before] if before else []), *example.records]),
    with_or_without_final_newline(FASTA, st.lists(fasta(), max_size=12)),
    st.sampled_from([b"", b"", b"\n", b"; a comment\n", b"text > before\r\n"]),
)
by_fastq = with_or_without_final_newline(FASTQ, st.lists(fastq(), max_size=12))
by_byte = st.binary(max_size=200).map(lambda data: Example(BYTES, [bytes([each]) for each in data]))
patterned = st.one_of(by_line, by_fasta, separated())
examples = st.one_of(patterned, by_fastq, by_byte)
windows = st.one_of(st.integers(1, 6), st.integers(1, 40), st.just(65_536))
parts_of = st.integers(1, 30)


@many_examples
@given(examples, parts_of, windows, st.integers(1, 8))
def test_parts_are_whole_records_and_add_up_to_the_object(
    example: Example, parts: int, window: int, threads: int
) -> None:
    data = example.data
    found = cuts(example.reader(), len(data), parts, example.kind, threads=threads, window=window)
    places = nominal(len(data), parts)
    assert found == [0, *(example.first_boundary(place) for place in places), len(data)]
    assert b"".join(data[begin:end] for begin, end in pairwise(found)) == data
    bounds = distinct(found)
    assert b"".join(data[begin:end] for begin, end in pairwise(bounds)) == data
    assert set(bounds) == set(found)
    assert bounds == [0, 0] or len(set(bounds)) == len(bounds)


@many_examples
@given(examples, st.data(), windows)
def test_a_cut_is_the_next_boundary_from_any_position(
    example: Example, data: st.DataObject, window: int
) -> None:
    read, size = example.reader(), len(example.data)
    start = data.draw(st.integers(0, size))
    for position in range(start, min(size, start + 60) + 1):
        assert find_cut(read, size, position, example.kind, window=window) == example.first_boundary(position)


@many_examples
@given(by_fastq.filter(lambda example: example.records != []), st.integers(0, 300))
def test_fastq_is_recognised_from_a_prefix_of_any_length(example: Example, seen: int) -> None:
    assert record_kind(example.data[: seen + 1], None) == FASTQ
    assert record_kind(example.data[:seen], "fastq") == FASTQ


@many_examples
@given(patterned, parts_of, windows)
def test_cuts_read_each_byte_at_most_once_and_few_in_total(example: Example, parts: int, window: int) -> None:
    reader = example.reader()
    size = len(example.data)
    cuts(reader, size, parts, example.kind, window=window)
    context = 1 + example.kind.before
    assert sum(reader.lengths) <= size + parts * context
    assert sum(reader.lengths) <= parts * (window + context + 2 * example.longest)
    assert len(reader.lengths) <= parts * (1 + (example.longest // window + 1).bit_length())


@many_examples
@given(by_fastq, parts_of, windows)
def test_fastq_cuts_read_about_two_records_each(example: Example, parts: int, window: int) -> None:
    reader = example.reader()
    cuts(reader, len(example.data), parts, FASTQ, window=window)
    needed = 2 * example.longest + 2
    assert sum(reader.lengths) <= parts * (window + 2 * needed)
    assert len(reader.lengths) <= parts * (1 + (needed // window + 1).bit_length())


@settings(max_examples=30)
@given(
    st.integers(20_000, 100_000),
    st.integers(2, 40),
    st.integers(16, 512),
    st.sampled_from(["line", "fasta", "fastq", "separator"]),
)
def test_a_record_longer_than_several_parts_is_read_a_limited_number_of_times(
    length: int, parts: int, window: int, name: str
) -> None:
    # FASTQ: cuts before each of the four lines read 2, 4, 3 and 3 records, finding the lines takes 2 more.
    giant = {
        "line": (LINE, b"x" * length + b"\n", 1),
        "fasta": (FASTA, b">giant\n" + b"ACGTACGTA\n" * (length // 10), 1),
        "separator": (separated_by("//"), b"/ /\n" * (length // 4) + b"//\r\n", 1),
        "fastq": (FASTQ, b"@giant\n" + b"A" * length + b"\n+\n" + b"@" * length + b"\n", 14),
    }
    kind, record, times = giant[name]
    example = Example(kind, [record] * 8)
    size = len(example.data)
    reader = example.reader()
    found = cuts(reader, size, parts, kind, window=window)
    assert found == [0, *(example.first_boundary(place) for place in nominal(size, parts)), size]
    assert sum(reader.lengths) <= times * size + parts * 2 * window
    single = example.reader()
    assert find_cut(single, size, 1, kind, window=window) == len(record)
    shown = (2 if kind == FASTQ else 1) * len(record)
    assert sum(single.lengths) <= 2 * shown + 2 * window
    assert len(single.lengths) <= 2 + (shown // window).bit_length()


@many_examples
@given(st.integers(0, 10**15), st.integers(1, 200))
def test_nominal_parts_differ_by_at_most_a_byte_and_larger_ones_come_first(size: int, parts: int) -> None:
    sizes = [end - begin for begin, end in pairwise([0, *nominal(size, parts), size])]
    assert len(sizes) == parts
    assert sum(sizes) == size
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] - sizes[-1] <= 1


@many_examples
@given(
    st.integers(0, 10**12),
    st.none() | st.integers(1, 10**6),
    st.none() | st.integers(1, 10**9),
)
def test_part_count_is_the_smallest_that_meets_both_limits(
    size: int, totalwork: int | None, limit: int | None
) -> None:
    count = part_count(size, totalwork=totalwork, max_part_bytes=limit)
    assert 1 <= count <= max(1, size)
    assert count >= min(size, totalwork or 1)
    assert limit is None or count * limit >= size
    one_less = count - 1
    assert one_less < max(totalwork or 1, 1) or (limit is not None and one_less * limit < size)


WIDTH = 100
GENERATED = {
    LINE: b"%099d\n",
    FASTA: b">%038d\n" + b"ACGTACGTACGTACGTACGTACGTACGTA\n" * 2,
    FASTQ: b"@%018d\n" + b"GATTACA" * 5 + b"GAT\n+\n" + b"@+" * 19 + b"\n",
    separated_by("//"): b"LOCUS %089d\n//\r\n",
}


def generated_object(template: bytes, size: int) -> CountingReader:
    """An object of any size with records of a hundred bytes, generated as it is read."""
    assert len(template % 0) == WIDTH

    def content(offset: int, length: int) -> bytes:
        end = min(size, offset + length)
        first = offset // WIDTH
        records = b"".join(template % number for number in range(first, -(-end // WIDTH)))
        return records[offset - first * WIDTH : end - first * WIDTH]

    return CountingReader(content)


@pytest.mark.parametrize("kind", GENERATED, ids=lambda kind: kind.name)
@pytest.mark.parametrize("parts", [2, 16, 101])
def test_the_number_of_reads_depends_on_the_parts_and_not_on_the_size(kind: Kind, parts: int) -> None:
    window = 16_384
    for size in (GIGABYTE // 100, 10 * GIGABYTE, 1_000 * GIGABYTE):
        reader = generated_object(GENERATED[kind], size)
        found = cuts(reader, size, parts, kind, window=window)
        assert found == [0, *(-(-place // WIDTH) * WIDTH for place in nominal(size, parts)), size]
        assert len(reader.lengths) == parts - 1
        assert max(reader.lengths) <= window + 1 + kind.before


def test_a_split_in_a_thousand_parts_reads_less_than_one_percent() -> None:
    reader = generated_object(GENERATED[LINE], 10 * GIGABYTE)
    found = cuts(reader, 10 * GIGABYTE, 1_000, LINE)
    assert len(distinct(found)) == 1_001
    assert len(reader.lengths) == 999
    assert sum(reader.lengths) < 10 * GIGABYTE / 100
