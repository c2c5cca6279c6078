"""Nodes of the node store: their documents, and the indexes by which clients ask for parts of a file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shardmill.model.awe.files import CHUNK_MB, CHUNKED, INDEXES
from shardmill.model.files import Partition
from shardmill.model.timestamps import utc_text

NO_TIME = "0001-01-01T00:00:00Z"
"""The zero time of Go, in which the clients are written: a file that was created then does not exist."""

_PART = re.compile(r"(\d{1,12})(?:-(\d{1,12}))?\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class NodeFile:
    """The file of a node; `time` is when it was complete, in milliseconds."""

    name: str
    size: int
    time: int
    md5: str = ""
    sha256: str = ""


def partition_by(index: str) -> Partition | None:
    """How an index divides a file; None if there is no such index."""
    if index not in INDEXES:
        return None
    size = CHUNK_MB if index in CHUNKED else None
    document = {"input": "file", "index": INDEXES[index], "by_units": True, "unit_mb": size}
    return Partition.model_validate(document)


def parse_part(text: str) -> tuple[int, int] | None:
    """The first and the last unit of a part such as `4-6`; None if the text has another form."""
    found = _PART.match(text)
    return (int(found[1]), int(found[2] or found[1])) if found else None


def index_document(units: int, size: int, time: int) -> dict[str, Any]:
    average = size // units if units else 0
    return {"total_units": units, "average_unit_size": average, "created_on": utc_text(time), "locked": None}


def node_document(
    node_id: str,
    file: NodeFile | None,
    *,
    name: str = "",
    attributes: Any = None,
    indexes: Mapping[str, Any] | None = None,
    created: int = 0,
    modified: int = 0,
    parts: tuple[int, int] | None = None,
) -> dict[str, Any]:
    """A node as clients read it. `parts`: how many its file has, and how many are stored."""
    checksums = {"md5": file.md5, "sha256": file.sha256} if file else {}
    return {
        "id": node_id,
        "version": str(modified),
        "file": {
            "name": file.name if file else name,
            "size": file.size if file else 0,
            "checksum": {kind: text for kind, text in checksums.items() if text},
            "format": "",
            "virtual": False,
            "virtual_parts": [],
            "created_on": utc_text(file.time) if file else NO_TIME,
            "locked": None,
        },
        "attributes": attributes,
        "indexes": dict(indexes or {}),
        "tags": [],
        "linkages": [],
        "priority": 0,
        "created_on": utc_text(created) if created else NO_TIME,
        "last_modified": utc_text(modified) if modified else NO_TIME,
        "expiration": NO_TIME,
        "type": "parts" if parts else "basic",
        "parts": _parts(*parts) if parts else None,
    }


def _parts(count: int, stored: int) -> dict[str, Any]:
    return {"count": count, "length": stored, "varlen": False, "parts": [], "compression": ""}
