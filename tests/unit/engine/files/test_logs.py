"""The pages of a log join to the log, wherever they are cut."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmill.engine.files import logs
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


@pytest.mark.parametrize("character", [b"\x01", b"\xff", b'"', "\u20ac".encode(), b"a"])
def test_a_page_with_any_content_fits_into_a_lambda_response(character: bytes) -> None:
    """A control character takes 1 byte in a log and 7 in a response, whose body is JSON inside JSON."""
    data = character * (logs.PAGE_BYTES // len(character))
    text, used, rest = "", 0, data
    while rest:
        page, taken = logs.fitting_page(rest, final=True)
        assert len(json.dumps(json.dumps({"text": page}))) < 6_000_000
        assert taken > 100_000 or taken == len(rest)
        text, used, rest = text + page, used + taken, rest[taken:]
    assert text == data.decode(errors="replace")
    assert used == len(data)
