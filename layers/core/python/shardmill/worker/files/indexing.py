"""Count the lines, records or bytes of an output, so that a later step can split it."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO, Literal

from shardmill.model.split import FASTA, HEAD_BYTES, LINE, Kind, SplitError, record_kind
from shardmill.model.transfers import Indexed
from shardmill.transfer.upload import PIECE_BYTES
from shardmill.worker.files.safe_paths import TransferError, open_inside


def index(folder: Path, path: str, by: Literal["line", "record", "bytes"]) -> Indexed:
    """The number of lines, records or bytes of a file. Raises TransferError if its format is unknown."""
    with open_inside(folder, path) as file:
        if by == "bytes":
            return Indexed(by=by, units=file.seek(0, 2))
        try:
            kind = record_kind(file.read(HEAD_BYTES), None) if by == "record" else LINE
        except SplitError as error:
            raise TransferError(f"cannot index output {path!r} by {by}: {error}") from error
        file.seek(0)
        return Indexed(by=by, units=_units(file, kind))


def _units(file: BinaryIO, kind: Kind) -> int:
    headers, lines, last = 0, 0, b"\n"
    while piece := file.read(PIECE_BYTES):
        if kind == FASTA:
            headers += (last + piece).count(b"\n>")
        lines += piece.count(b"\n")
        last = piece[-1:]
    lines += last != b"\n"
    if kind == FASTA:
        return headers
    return lines if kind == LINE else -(-lines // 4)
