"""The tails of logs and their chunks."""

from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from shardmill.worker import logs
from shardmill.worker.logs import TAIL_BYTES, Part, tail


def written(data: bytes, folder: str) -> Path:
    path = Path(folder) / "stream"
    path.write_bytes(data)
    return path


texts = st.text(alphabet=st.characters(codec="utf-8"), max_size=60).map(lambda text: text * 40)


@given(texts)
def test_the_tail_of_a_text_has_whole_characters(text: str) -> None:
    with TemporaryDirectory() as folder:
        found = tail(written(text.encode(), folder))
    assert text.endswith(found)
    size = len(found.encode())
    assert size <= TAIL_BYTES
    assert found == text or size > TAIL_BYTES - 4


@given(st.binary(max_size=80).map(lambda data: data * 100))
def test_the_tail_of_any_bytes_is_at_most_4_kb_of_text(data: bytes) -> None:
    with TemporaryDirectory() as folder:
        found = tail(written(data, folder))
    assert len(found.encode()) <= TAIL_BYTES
    assert data.decode(errors="replace").endswith(found.lstrip("\N{REPLACEMENT CHARACTER}"))


@given(st.binary(max_size=400), st.integers(1, 50), st.integers(0, 400), st.integers(0, 9))
def test_the_chunks_of_a_part_join_to_the_part(data: bytes, size: int, start: int, first: int) -> None:
    start = min(start, len(data))
    with TemporaryDirectory() as folder, patch.object(logs, "CHUNK_BYTES", size):
        part = Part(written(data, folder), start, len(data), first)
        found = list(part)
        assert len(found) == part.count
    assert b"".join(chunk for _, chunk in found) == data[start:]
    assert all(len(chunk) == size for _, chunk in found[:-1])
    assert [number for number, _ in found] == list(range(first, first + len(found)))
