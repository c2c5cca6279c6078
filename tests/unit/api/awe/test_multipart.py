"""Multipart bodies as Go, Python and curl write them, and malformed ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmill.api.awe.multipart import Part, read_parts
from shardmill.engine.errors import BadRequest

TYPE = "multipart/form-data; boundary=xyz"


def body(*parts: tuple[str, bytes], end: bytes = b"--xyz--\r\n") -> bytes:
    return b"".join(b"--xyz\r\n" + head.encode() + b"\r\n\r\n" + text + b"\r\n" for head, text in parts) + end


def file(name: str, filename: str) -> str:
    return f'Content-Disposition: form-data; name="{name}"; filename="{filename}"'


def test_files_and_fields_are_parsed() -> None:
    sent = body(
        (file("upload", "job.json") + "\r\nContent-Type: application/octet-stream", b'{"a": 1}'),
        ('content-disposition: form-data; name="x"', b""),
    )
    assert read_parts(sent, TYPE) == {"upload": Part(b'{"a": 1}', "job.json"), "x": Part(b"")}


def test_a_preamble_and_padding_are_ignored() -> None:
    sent = b"preamble\r\n--xyz  \r\n" + file("a", "f").encode() + b"\r\n\r\n1\r\n--xyz--\r\nepilogue"
    assert read_parts(sent, 'Multipart/Form-Data; charset=utf-8; boundary="xyz"')["a"].content == b"1"


@given(st.binary(max_size=300).filter(lambda content: b"--xyz" not in content))
def test_bytes_stay_as_they_are(content: bytes) -> None:
    assert read_parts(body((file("a", "f"), content)), TYPE)["a"].content == content


@pytest.mark.parametrize(
    ("sent", "kind"),
    [
        (b"", TYPE),
        (b"no boundary", TYPE),
        (body((file("a", "f"), b"1"), end=b""), TYPE),
        (body(("x: y", b"1")), TYPE),
        (body(('Content-Disposition: form-data; name=""', b"1")), TYPE),
        (b"--xyz\r\n" + file("a", "f").encode() + b"\r\n--xyz--", TYPE),
        (b"--xyz what\r\n" + file("a", "f").encode() + b"\r\n\r\n1\r\n--xyz--", TYPE),
        (b"--xyz\r\nh: " + b"a" * 9_000 + b"\r\n\r\n1\r\n--xyz--", TYPE),
        (body(*[(file("a", "f"), b"1")] * 101), TYPE),
        (body((file("a", "f"), b"1")), "multipart/form-data"),
        (body((file("a", "f"), b"1")), "multipart/form-data; boundary="),
        (body((file("a", "f"), b"1")), "multipart/form-data; boundary=é"),
    ],
)
def test_malformed_bodies_are_rejected(sent: bytes, kind: str) -> None:
    with pytest.raises(BadRequest):
        read_parts(sent, kind)


@given(st.binary(max_size=200), st.text(max_size=60))
def test_hostile_bodies_are_read_or_rejected(sent: bytes, kind: str) -> None:
    try:
        read_parts(b"--xyz\r\n" + sent, f"multipart/form-data; boundary=xyz{kind}")
        read_parts(sent, kind)
    except BadRequest:
        return
