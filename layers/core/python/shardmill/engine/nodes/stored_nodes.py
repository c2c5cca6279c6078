"""Nodes that belong to no output: files that submitters upload for their jobs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from shardmill.aws.files import Place
from shardmill.engine.conflict import Attempts
from shardmill.engine.errors import BadRequest
from shardmill.engine.files import join, keys
from shardmill.engine.mill import Mill
from shardmill.engine.nodes import downloads
from shardmill.engine.nodes.callers import Caller, check_create, check_reads_node, check_writes_node
from shardmill.engine.nodes.downloads import Download, PartWanted
from shardmill.engine.nodes.errors import NodeImmutable, NodeNotFound, NodeWithoutFile
from shardmill.engine.nodes.uploads import Announced, NewFile, Presigned, presign_put
from shardmill.model.awe.nodes import NodeFile, index_document, node_document
from shardmill.store.awe.nodes import NodeRow

Changes = dict[str, Any]

MAX_PARTS = 1_000
"""The most parts that one call lists."""


def create(mill: Mill, caller: Caller, node_id: str, now: int) -> NodeRow:
    """Create a node without a file. Raises Unauthorized."""
    check_create(caller)
    actor, job_id = caller.actor, caller.work.job_id if caller.work else ""
    row = NodeRow(
        id=node_id,
        owner=actor.name,
        owner_token=actor.token_id,
        job_id=job_id,
        create_time=now,
        update_time=now,
    )
    mill.nodes.create(row)
    return row


def find(mill: Mill, caller: Caller, node_id: str, now: int, *, write: bool = False) -> NodeRow:
    """A node that the caller may read or write. Raises NodeNotFound."""
    row = mill.nodes.get(node_id)
    if not row:
        raise NodeNotFound(node_id)
    if write:
        check_writes_node(caller, row)
    else:
        check_reads_node(mill, caller, row)
    return settle(mill, row, now)


def settle(mill: Mill, row: NodeRow, now: int) -> NodeRow:
    """Record the file of an announced upload once S3 has it."""
    if row.file_time is not None or not row.sha256:
        return row
    head = mill.files.head(mill.files.own(keys.node_file(row.id, row.sha256)))
    if not head:
        return row
    md5 = head.etag.strip('"')
    known = md5 if len(md5) == 32 else ""  # the ETag of an object in one piece is its MD5
    found = {"size": head.size, "md5": known, "file_time": now}

    def decide(read: NodeRow) -> Changes | None:
        return found if read.file_time is None and read.sha256 == row.sha256 else None

    return _change(mill, row, decide, now)


def _change(mill: Mill, row: NodeRow, decide: Callable[[NodeRow], Changes | None], now: int) -> NodeRow:
    """Change a node; decides again after a concurrent change. None changes nothing."""
    attempts = Attempts("the node")
    while (changes := decide(row)) is not None:
        attempts.begin()
        changed = mill.nodes.change(row, now=now, **changes)
        if changed:
            return changed
        read = mill.nodes.get(row.id)
        if not read:
            raise NodeNotFound(row.id)
        row = read
    return row


def place(mill: Mill, row: NodeRow) -> Place:
    """The object with the file of a node. Raises NodeWithoutFile."""
    if row.file_time is None:
        raise NodeWithoutFile
    return mill.files.own(keys.node_file(row.id, row.sha256))


def describe(mill: Mill, row: NodeRow) -> dict[str, Any]:
    file = None
    if row.file_time is not None:
        file = NodeFile(row.file_name, row.size, row.file_time, row.md5, row.sha256)
    stored = row.parts if file else len(_stored_parts(mill, row)) if row.parts else 0
    return node_document(
        row.id,
        file,
        name=row.file_name,
        attributes=row.attributes,
        indexes={
            name: index_document(each["units"], row.size, each["time"]) for name, each in row.indexes.items()
        },
        created=row.create_time,
        modified=row.update_time,
        parts=(row.parts, stored) if row.parts else None,
    )


def download(mill: Mill, row: NodeRow, wanted: PartWanted | None) -> Download:
    return downloads.download(mill, row.id, place(mill, row), wanted)


def upload(mill: Mill, row: NodeRow, file: NewFile, now: int) -> NodeRow:
    """Store the whole file of a node. A repeated upload changes nothing; an upload of other content is
    rejected.

    The key contains the checksum, so that two uploads never share an object, and the row decides.
    """
    sha256 = hashlib.sha256(file.content).hexdigest()
    _check_replaceable(row, sha256)
    mill.files.write(keys.node_file(row.id, sha256), file.content)
    md5 = hashlib.md5(file.content, usedforsecurity=False).hexdigest()
    found: dict[str, Any] = {"file_name": file.name, "size": len(file.content), "md5": md5, "sha256": sha256}
    return _set_file(mill, row, found, now)


def _check_replaceable(row: NodeRow, sha256: str) -> None:
    if row.file_time is not None and row.sha256 != sha256:
        raise NodeImmutable(
            f"node {row.id} has a file already, and files of nodes are immutable; create a new node"
        )
    if row.parts:
        raise BadRequest(
            f"node {row.id} is made of {row.parts} parts; send each in a field named by its number"
        )


def _set_file(mill: Mill, row: NodeRow, found: Changes, now: int) -> NodeRow:
    row = _change(
        mill, row, lambda read: {**found, "file_time": now} if read.file_time is None else None, now
    )
    if row.sha256 != found["sha256"]:
        raise NodeImmutable(f"node {row.id} got another file at the same time; create a new node")
    return row


def announce(mill: Mill, row: NodeRow, file: Announced, now: int) -> tuple[NodeRow, Presigned]:
    """A presigned address for the whole file; the node has the file once S3 has it."""
    _check_replaceable(row, file.sha256)
    if row.file_time is None:
        named = {"file_name": file.name or row.file_name, "size": file.size, "sha256": file.sha256}
        row = _change(mill, row, lambda read: named if read.file_time is None else None, now)
    return row, presign_put(mill, keys.node_file(row.id, file.sha256), file)


def set_parts(mill: Mill, row: NodeRow, count: int, name: str, now: int) -> NodeRow:
    """Set the number of parts of a node's file. Raises NodeImmutable if the node has a file already."""
    if not 1 <= count <= MAX_PARTS:
        raise BadRequest(f"parts must be between 1 and {MAX_PARTS}")
    if row.file_time is not None or row.parts not in (0, count):
        raise NodeImmutable(f"node {row.id} has a file or another number of parts already")
    named = {"parts": count, "file_name": name or row.file_name}
    return _change(mill, row, lambda read: named if read.parts != count else None, now)


def upload_part(mill: Mill, row: NodeRow, number: int, file: NewFile, now: int) -> NodeRow:
    """Store a part of the file of a node; with the last one, the parts become the file."""
    _check_part(row, number)
    if row.file_time is None:
        mill.files.write(keys.node_part(row.id, number), file.content)
    return join_parts(mill, row, now)


def announce_part(mill: Mill, row: NodeRow, number: int, file: Announced) -> Presigned:
    _check_part(row, number)
    return presign_put(mill, keys.node_part(row.id, number), file)


def _check_part(row: NodeRow, number: int) -> None:
    if not row.parts:
        raise BadRequest(f"node {row.id} has no parts; send the field parts with their number first")
    if not 1 <= number <= row.parts:
        raise BadRequest(f"node {row.id} has no part {number}; it has {row.parts}")


def join_parts(mill: Mill, row: NodeRow, now: int) -> NodeRow:
    """Make the file of a node once all parts are stored; no-op before. Idempotent."""
    if row.file_time is not None or not row.parts or len(_stored_parts(mill, row)) < row.parts:
        return row
    places = [mill.files.own(keys.node_part(row.id, number)) for number in range(1, row.parts + 1)]
    heads = [(place, mill.files.head(place)) for place in places]
    pieces = [(place, 0, head.size) for place, head in heads if head and head.size]
    join.write_pieces(mill, keys.node_file(row.id, ""), pieces)
    size = sum(end for _, _, end in pieces)
    return _set_file(mill, row, {"size": size, "sha256": ""}, now)


def _stored_parts(mill: Mill, row: NodeRow) -> list[str]:
    return mill.files.keys(keys.node_parts(row.id))


def set_attributes(mill: Mill, row: NodeRow, attributes: Any, now: int) -> NodeRow:
    return _change(mill, row, lambda _: {"attributes": attributes}, now)


def index(mill: Mill, row: NodeRow, kind: str, now: int) -> dict[str, Any]:
    """Make an index of the file of a node, if it has none. Raises FileUnavailable if it cannot be indexed."""
    found = place(mill, row)
    head = mill.files.head(found)
    if not head:
        raise NodeWithoutFile
    counted = downloads.count_units(mill, row.id, found, head, kind)

    def decide(read: NodeRow) -> Changes | None:
        known = read.indexes
        return {"indexes": {**known, kind: {"units": counted, "time": now}}} if kind not in known else None

    row = _change(mill, row, decide, now)
    return index_document(counted, head.size, row.indexes[kind]["time"])


def delete(mill: Mill, row: NodeRow) -> None:
    """Delete a node and its file; jobs that were submitted with it can no longer read it."""
    mill.nodes.delete(row.id)
    mill.files.remove(keys.node(row.id))
