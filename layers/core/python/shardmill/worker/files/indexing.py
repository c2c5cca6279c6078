"""Counting what is in a file that a task made, so that a later step which splits it knows how far it can."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from shardmill.model.split import FASTA, HEAD_BYTES, LINE, Kind, SplitError, record_kind
from shardmill.model.transfers import Indexed
from shardmill.worker.files.safe_paths import TransferError, open_inside

_PIECE = 2**20


def index(folder: Path, path: str, by: str) -> Indexed:
    """How many lines, records or bytes a file has. Raises TransferError if that cannot be told."""
    with open_inside(folder, path) as file:
        if by == "bytes":
            return Indexed(by=by, units=file.seek(0, 2))
        try:
            kind = record_kind(file.read(HEAD_BYTES), None) if by == "record" else LINE
        except SplitError as error:
            raise TransferError(f"output {path!r} has no index by {by}: {error}") from error
        file.seek(0)
        return Indexed(by=by, units=_units(file, kind))


def _units(file: BinaryIO, kind: Kind) -> int:
    begins, lines, last = 0, 0, b"\n"
    while piece := file.read(_PIECE):
        if kind == FASTA:
            begins += (last + piece).count(b"\n>")
        lines += piece.count(b"\n")
        last = piece[-1:]
    lines += last != b"\n"
    if kind == FASTA:
        return begins
    return lines if kind == LINE else -(-lines // 4)
