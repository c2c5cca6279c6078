"""The outputs that a client of the AWE protocol uploaded for an attempt, when it reports the attempt."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from shardmill.aws.files import Head, Place
from shardmill.engine.errors import FileUnavailable
from shardmill.engine.files import keys
from shardmill.engine.files.held_attempt import HeldAttempt
from shardmill.engine.mill import Mill
from shardmill.engine.nodes.downloads import count_units
from shardmill.model.files import File
from shardmill.model.transfers import Indexed, Stored

MAX_ATTRIBUTES_BYTES = 65_536
_MAX_STORED_ATTRIBUTES = 16 * MAX_ATTRIBUTES_BYTES  # in ASCII, they may be longer than the client sent them


class WorkOutputs(NamedTuple):
    """The files that were uploaded, and a sentence for each output that is missing or empty."""

    stored: Sequence[Stored]
    faults: Sequence[str]


def work_outputs(mill: Mill, held: HeldAttempt) -> WorkOutputs:
    """The files that an attempt uploaded; one HEAD request for each declared output."""
    stored: list[Stored] = []
    faults: list[str] = []
    for file in held.files(held.spec.outputs):
        name = file.upload_name or file.name
        place = mill.files.own(held.output_key(name))
        head = mill.files.head(place)
        if not head or "sha256" not in head.labels:
            if not file.optional:
                faults.append(f"the output {file.name!r} was not uploaded to the node store")
        elif file.nonzero and not head.size:
            faults.append(f"the output {file.name!r} is empty")
        else:
            stored.append(_stored(mill, held, file, place, head))
    return WorkOutputs(stored, faults)


def _stored(mill: Mill, held: HeldAttempt, file: File, place: Place, head: Head) -> Stored:
    name = file.upload_name or file.name
    return Stored(
        name=name,
        size=head.size,
        sha256=head.labels["sha256"],
        attributes=stored_attributes(mill, held, name) if head.labels.get("attributes") else None,
        indexed=_indexed(mill, held.step.job_id, file, place, head),
    )


def store_attributes(mill: Mill, held: HeldAttempt, name: str, attributes: Any) -> None:
    mill.files.write(_attributes_key(held, name), json.dumps(attributes).encode())


def stored_attributes(mill: Mill, held: HeldAttempt, name: str) -> dict[str, Any] | None:
    """The attributes of an output whose object has the label of attributes."""
    place = mill.files.own(_attributes_key(held, name))
    found = json.loads(mill.files.read(place, 0, _MAX_STORED_ATTRIBUTES))
    return found if isinstance(found, dict) else None


def _attributes_key(held: HeldAttempt, name: str) -> str:
    step = held.step
    return keys.output_attributes(step.job_id, step.run, step.index, held.rank, held.attempt, name)


def _indexed(mill: Mill, job_id: str, file: File, place: Place, head: Head) -> Indexed | None:
    """The units of a file; None if it cannot be indexed, because an index is only a help for later steps."""
    kind = file.upload_index
    if kind is None:
        return None
    if kind == "bytes" or not head.size:
        return Indexed(by=kind, units=head.size)
    try:
        return Indexed(by=kind, units=count_units(mill, job_id, place, head, kind))
    except FileUnavailable:
        return None
