"""The pages of a log join to the log, wherever they are cut."""

from hypothesis import given
from hypothesis import strategies as st

from shardmill.engine.files.logs import decode_page


@given(st.text(), st.integers(4, 20))
def test_pages_join_to_the_whole(text: str, size: int) -> None:
    data, offset, read = text.encode(errors="replace"), 0, ""
    while True:
        piece = data[offset : offset + size]
        final = offset + size >= len(data)
        page, used = decode_page(piece, final=final)
        read += page
        offset += used
        if final and offset >= len(data):
            break
    assert read == data.decode()


@given(st.binary(max_size=200))
def test_invalid_utf8_is_replaced(data: bytes) -> None:
    text, used = decode_page(data, final=True)
    assert used == len(data)
    assert text == data.decode(errors="replace")
