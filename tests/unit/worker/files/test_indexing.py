"""Counting of lines and records, for any size of the pieces read."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.worker.files import indexing
from shardmill.worker.files.safe_paths import TransferError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("indexed")


def units(folder: Path, data: bytes, by: str, piece: int = 7) -> int:
    (folder / "file").write_bytes(data)
    before, indexing.PIECE_BYTES = indexing.PIECE_BYTES, piece
    try:
        found = indexing.index(folder, "file", by)
    finally:
        indexing.PIECE_BYTES = before
    assert found.by == by
    return found.units


words = st.text("ACGT>@+ x", max_size=12).map(str.encode)


@settings(max_examples=100)
@given(st.lists(words, max_size=20), st.booleans(), st.integers(1, 30))
def test_lines_are_counted(folder: Path, lines: list[bytes], ended: bool, piece: int) -> None:
    data = b"\n".join(lines) + (b"\n" if ended and lines else b"")
    assert units(folder, data, "line", piece) == len(data.splitlines())


@settings(max_examples=100)
@given(
    st.lists(st.lists(st.text("ACGT", max_size=9), max_size=3), min_size=1, max_size=9), st.integers(1, 30)
)
def test_records_are_counted(folder: Path, records: list[list[str]], piece: int) -> None:
    data = "".join(
        f">{number}\n" + "".join(f"{line}\n" for line in lines) for number, lines in enumerate(records)
    )
    assert units(folder, data.encode(), "record", piece) == len(records)


def test_fastq_and_bytes_are_counted_and_unknown_formats_rejected(folder: Path) -> None:
    assert units(folder, b"@a\nAC\n+\n@@\n@b\nA\n+\n+\n", "record") == 2
    assert units(folder, b"12345", "bytes") == 5
    assert units(folder, b"", "line") == 0
    with pytest.raises(TransferError, match=r"cannot index output .* by record"):
        units(folder, b"neither", "record")
