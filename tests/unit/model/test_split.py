"""Splitting of objects: rejected inputs, and edge cases of each kind of record."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from itertools import pairwise

import pytest

from shardmill.model import split
from shardmill.model.split import (
    BYTES,
    FASTA,
    FASTQ,
    LINE,
    Kind,
    Read,
    SplitError,
    check_splittable,
    cuts,
    distinct,
    find_cut,
    part_count,
    record_kind,
    separated_by,
)


def reader(data: bytes) -> Read:
    return lambda offset, length: data[offset : offset + length]


def split_into(data: bytes, parts: int, kind: Kind) -> list[bytes]:
    found = distinct(cuts(reader(data), len(data), parts, kind, window=4))
    return [data[begin:end] for begin, end in pairwise(found)]


@pytest.mark.parametrize(
    ("size", "totalwork", "limit", "count"),
    [
        (100, None, None, 1),
        (100, 4, None, 4),
        (100, None, 30, 4),
        (100, 2, 30, 4),
        (100, 7, 30, 7),
        (100, None, 100, 1),
        (101, None, 100, 2),
        (3, 10, None, 3),
        (3, None, 1, 3),
        (0, 10, 1, 1),
    ],
)
def test_the_number_of_parts_follows_the_size_and_the_limits(
    size: int, totalwork: int | None, limit: int | None, count: int
) -> None:
    assert part_count(size, totalwork=totalwork, max_part_bytes=limit) == count


def a_zip() -> bytes:
    with io.BytesIO() as buffer:
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr("reads.txt", "a\n")
        return buffer.getvalue()


def a_tar() -> bytes:
    with io.BytesIO() as buffer:
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            archive.addfile(tarfile.TarInfo("reads.txt"), io.BytesIO())
        return buffer.getvalue()


@pytest.mark.parametrize(
    ("packing", "head"),
    [
        ("gzip", gzip.compress(b"reads")),
        ("bzip2", bz2.compress(b"reads")),
        ("bzip2", bz2.compress(b"")),
        ("xz", lzma.compress(b"reads")),
        ("lzma", lzma.compress(b"reads", format=lzma.FORMAT_ALONE)),
        ("zip", a_zip()),
        ("tar", a_tar()),
        ("zstd", bytes.fromhex("28b52ffd")),
        ("zstd", bytes.fromhex("502a4d18")),
        ("lz4", bytes.fromhex("04224d18")),
        ("snappy", bytes.fromhex("ff060000734e61507059")),
        ("7z", bytes.fromhex("377abcaf271c")),
        ("rar", b"Rar!\x1a\x07\x00"),
        ("compress", bytes.fromhex("1f9d90")),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_compressed_content_is_rejected_regardless_of_its_name(packing: str, head: bytes) -> None:
    with pytest.raises(SplitError, match=rf"'reads.txt' .*first bytes.*\({packing}\).* Decompress it first"):
        check_splittable("reads.txt", head)


@pytest.mark.parametrize(
    ("packing", "name"),
    [
        ("gzip", "in/reads.fastq.gz"),
        ("gzip", "READS.TGZ"),
        ("gzip", "reads.bam"),
        ("bzip2", "reads.bz2"),
        ("zstd", "reads.zst"),
        ("zip", "reads.zip"),
        ("7z", "reads.7z"),
        ("compress", "reads.Z"),
        ("brotli", "reads.br"),
    ],
)
def test_the_extension_of_a_compressed_file_is_rejected(packing: str, name: str) -> None:
    with pytest.raises(SplitError, match=rf"{name}' .*name.*\({packing}\).* Decompress it first"):
        check_splittable(name, b"")


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("reads.fastq", b"@read\nACGT\n+\nIIII\n"),
        ("gz", b"BZh is how this line begins\n"),
        ("a.gz.txt", b"PK, Rar! and 7z\n"),
        ("empty", b""),
        ("lines", "Ünïcödé\n".encode("utf-16")),
    ],
)
def test_uncompressed_content_is_accepted(name: str, head: bytes) -> None:
    check_splittable(name, head)
    assert split_into(head, 1, LINE) == [head]


@pytest.mark.parametrize(
    ("head", "options", "kind"),
    [
        (b">one\nACGT\n", None, FASTA),
        (b"; a comment\n>one\n", None, FASTA),
        (b"\xef\xbb\xbf\r\n>one\n", "", FASTA),
        (b"@one\nACGT\n+\nIIII\n@two\n", None, FASTQ),
        (b"@one", None, FASTQ),
        (b"", None, LINE),
        (b"text before\n>one\n", "fasta", FASTA),
        (b"@one\nACGT\n", " FASTQ ", FASTQ),
        (b">one\n", "separator=//", separated_by("//")),
        (b"a\n\nb\n", "separator=", separated_by("")),
    ],
)
def test_the_record_kind_is_recognised(head: bytes, options: str | None, kind: Kind) -> None:
    assert record_kind(head, options) == kind


@pytest.mark.parametrize(
    ("head", "options", "says"),
    [
        (b"LOCUS  AB1", None, r"begins with b'LOCUS  AB1'.*'fasta', 'fastq', or 'separator=TEXT'.*'line'"),
        (b">one\n", "embl", r"'embl' is not an option .*'fasta', 'fastq', or 'separator=TEXT'"),
        (b">one\n", "separator=a\nb", r"'a\\nb' must be a single line"),
        (b"@one\nAC\nGT\n+\nII\nII\n@two\nAC\n", None, r"from byte 0 on.*several lines.*one line"),
    ],
)
def test_invalid_records_are_rejected(head: bytes, options: str | None, says: str) -> None:
    with pytest.raises(SplitError, match=says):
        record_kind(head, options)


@pytest.mark.parametrize(
    ("kind", "data", "parts"),
    [
        (LINE, b"", [b""]),
        (LINE, b"one line", [b"one line"]),
        (LINE, b"one line\n", [b"one line\n"]),
        (LINE, b"aa\nbb\ncc", [b"aa\n", b"bb\n", b"cc"]),
        (LINE, b"a\r\nb\r\nc\r\n", [b"a\r\n", b"b\r\n", b"c\r\n"]),
        (LINE, b"\n\n\n", [b"\n", b"\n", b"\n"]),
        (BYTES, b"a\nbcdef", [b"a\nb", b"cd", b"ef"]),
        (BYTES, b"", [b""]),
        (FASTA, b">a\nAC\nGT\n>b\n>c\nA", [b">a\nAC\nGT\n", b">b\n", b">c\nA"]),
        (FASTA, b">a\n@C\n;T\n+ >\n>b\n", [b">a\n@C\n;T\n+ >\n", b">b\n"]),
        (FASTA, b"no record at all\n", [b"no record at all\n"]),
        (FASTQ, b"@a\nA\n+\n@\n@b\nC\n+\n+\n", [b"@a\nA\n+\n@\n", b"@b\nC\n+\n+\n"]),
        (FASTQ, b"@a\nA\n+\nI\n@b\nC\n+\nI\n\n\n", [b"@a\nA\n+\nI\n", b"@b\nC\n+\nI\n\n\n"]),
        (FASTQ, b"@a\n\n+\n\n@b\n\n+\n", [b"@a\n\n+\n\n", b"@b\n\n+\n"]),
        (separated_by("//"), b"a//\n//\nb\n//\r\nc\n//", [b"a//\n//\n", b"b\n//\r\n", b"c\n//"]),
        (separated_by("//"), b"//\n//\n//\n", [b"//\n", b"//\n", b"//\n"]),
        (separated_by("//"), b"// \n ///\n//\r\r\n", [b"// \n ///\n//\r\r\n"]),
    ],
)
def test_three_parts_consist_of_whole_records(kind: Kind, data: bytes, parts: list[bytes]) -> None:
    assert split_into(data, 3, kind) == parts


@pytest.mark.parametrize(("position", "cut"), [(0, 0), (1, 5), (4, 5), (5, 5), (6, 9), (9, 9), (99, 9)])
def test_a_cut_follows_a_line_end_of_two_bytes(position: int, cut: int) -> None:
    data = b"abc\r\nde\r\n"
    assert find_cut(reader(data), len(data), position, LINE, window=1) == cut


@pytest.mark.parametrize(("position", "cut"), [(1, 6), (4, 6), (5, 6), (6, 6), (7, 9)])
def test_a_cut_follows_a_separator(position: int, cut: int) -> None:
    data = b"a\n//\r\n//\nc"
    assert find_cut(reader(data), len(data), position, separated_by("//"), window=1) == cut


@pytest.mark.parametrize("window", [1, 3, 8, 64])
def test_multiline_fastq_is_rejected_where_it_is_found(window: int) -> None:
    record = b"@name\nACGT\nACGT\nAC\n+\n@III\n+III\nII\n"
    data = record * 20
    for position in range(1, len(data) - 2 * len(record)):
        with pytest.raises(SplitError, match=r"from byte \d+ on.*span several lines cannot be split"):
            find_cut(reader(data), len(data), position, FASTQ, window=window)


def test_a_truncated_fastq_record_does_not_start_a_part() -> None:
    data = b"@a\nAC\n+\nII\n@b\nAC\n+\n"
    with pytest.raises(SplitError, match=r"quality of the same length.*from byte 3 on"):
        find_cut(reader(data), len(data), 3, FASTQ)
    assert find_cut(reader(data), len(data), 12, FASTQ) == len(data)


@pytest.mark.parametrize("window", [1, 3, 8, 64])
def test_blank_lines_between_fastq_records_are_rejected_after_a_short_read(window: int) -> None:
    record = b"@a\nAC\n+\nII\n\n"
    data = record * 100
    lengths: list[int] = []

    def read(offset: int, length: int) -> bytes:
        lengths.append(length)
        return data[offset : offset + length]

    for position in range(1, len(data) - 2 * len(record)):
        lengths.clear()
        with pytest.raises(SplitError, match="no FASTQ record of four lines"):
            find_cut(read, len(data), position, FASTQ, window=window)
        assert sum(lengths) < 200


def test_few_reads_find_the_cuts_of_giant_fastq_records() -> None:
    data = (b"@giant\n" + b"A" * 20_000 + b"\n+\n" + b"@" * 20_000 + b"\n") * 2
    lengths: list[int] = []

    def read(offset: int, length: int) -> bytes:
        lengths.append(length)
        return data[offset : offset + length]

    found = cuts(read, len(data), 1_000, FASTQ, window=4_096)
    assert distinct(found) == [0, len(data) // 2, len(data)]
    assert len(lengths) <= 999 + 2 * 4 * 5


@pytest.mark.parametrize("data", [b"", b"xx", b"x" * 100])
def test_an_object_of_unexpected_size_is_rejected(data: bytes) -> None:
    with pytest.raises(SplitError, match=rf"at byte 4 and {len(data)} received: .*has changed.*Submit again"):
        cuts(lambda offset, length: data, 10, 2, LINE)


def test_read_errors_are_raised() -> None:
    def read(offset: int, length: int) -> bytes:
        raise ConnectionError("no such bucket")

    with pytest.raises(ConnectionError, match="no such bucket"):
        cuts(read, 1_000, 50, LINE)


def test_a_very_long_record_is_read_in_pieces_that_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split, "_LONGEST_READ", 1_024)
    data = b"x" * 10_000 + b"\n" + b"y" * 10
    lengths: list[int] = []

    def read(offset: int, length: int) -> bytes:
        lengths.append(length)
        return data[offset : offset + length]

    assert find_cut(read, len(data), 1, LINE, window=64) == 10_001
    assert max(lengths) == 1_024
    assert len(lengths) < 16
