"""Read multipart bodies: the fields of a form by name, with their bytes as they were sent."""

from __future__ import annotations

from dataclasses import dataclass
from email.message import Message
from email.parser import HeaderParser

from shardmill.engine.errors import BadRequest

MAX_PARTS = 100
_MAX_HEADER_BYTES = 8_192
_MAX_BOUNDARY = 200


@dataclass(frozen=True, slots=True)
class Part:
    """One field of a form; `filename` is empty unless it is a file."""

    content: bytes
    filename: str = ""


def is_multipart(content_type: str) -> bool:
    return content_type.strip().lower().startswith("multipart/form-data")


def read_parts(body: bytes, content_type: str) -> dict[str, Part]:
    """The fields of a form; the last of several with the same name. Raises BadRequest if it is malformed."""
    boundary = _headers(f"content-type: {content_type}").get_param("boundary")
    if not isinstance(boundary, str) or not 0 < len(boundary) <= _MAX_BOUNDARY or not boundary.isascii():
        raise BadRequest("the content type of the multipart body has no valid boundary")
    delimiter = b"--" + boundary.encode()
    # A delimiter starts a line and includes the line break before it.
    pieces = (b"\r\n" + body).split(b"\r\n" + delimiter)
    if len(pieces) < 2:
        raise BadRequest("the multipart body does not contain its boundary")
    if len(pieces) > MAX_PARTS + 2:
        raise BadRequest(f"the multipart body has more than {MAX_PARTS} parts")
    found: dict[str, Part] = {}
    for piece in pieces[1:]:
        if piece.startswith(b"--"):
            return found
        name, part = _part(piece)
        found[name] = part
    raise BadRequest("the multipart body is cut off: its final boundary is missing")


def _part(piece: bytes) -> tuple[str, Part]:
    padding, _, rest = piece.partition(b"\r\n")
    if padding.strip(b" \t"):
        raise BadRequest("the multipart body has text after a boundary")
    head, separator, content = (b"\r\n" + rest).partition(b"\r\n\r\n")
    if not separator or len(head) > _MAX_HEADER_BYTES:
        raise BadRequest("a part of the multipart body has no valid headers")
    headers = _headers(head.decode("utf-8", errors="replace").lstrip("\r\n"))
    name = headers.get_param("name", header="content-disposition")
    if not isinstance(name, str) or not name:
        raise BadRequest("a part of the multipart body has no name in its Content-Disposition")
    filename = headers.get_param("filename", header="content-disposition")
    return name, Part(content, filename if isinstance(filename, str) else "")


def _headers(text: str) -> Message:
    return HeaderParser().parsestr(text)
