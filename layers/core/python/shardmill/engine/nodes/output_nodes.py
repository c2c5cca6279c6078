"""The nodes of a job's outputs: each is a File of the engine, found by the index of its step and its own.

They exist as soon as the job does, without rows: the id names the output. Clients upload under the attempt
that they hold, as any worker does, and the report of the attempt makes the files visible.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from shardmill.aws.files import Head, Place
from shardmill.engine.conflict import Attempts
from shardmill.engine.errors import BadRequest
from shardmill.engine.files import join, outputs, split
from shardmill.engine.files.held_attempt import HeldAttempt
from shardmill.engine.files.outputs import AttemptOutput
from shardmill.engine.files.sources import Source, matching
from shardmill.engine.mill import Mill
from shardmill.engine.nodes import downloads
from shardmill.engine.nodes.callers import Caller, check_reads_job, upload_attempt
from shardmill.engine.nodes.downloads import Download, PartWanted
from shardmill.engine.nodes.errors import NodeNotFound, NodeWithoutFile
from shardmill.engine.nodes.uploads import Announced, NewFile, Presigned, presign_put
from shardmill.engine.nodes.work_outputs import store_attributes, stored_attributes
from shardmill.model.awe.names import JobNode
from shardmill.model.awe.nodes import NodeFile, index_document, node_document
from shardmill.model.files import File
from shardmill.model.states import JobState
from shardmill.store.rows import JobRow, StepRow

WHOLE = "upload"
"""The field of a form with the whole file; the parts of a file have fields named by their number."""


class Output(NamedTuple):
    """The output that a node names. A job that is not planned yet has no steps."""

    job: JobRow
    step: StepRow | None
    file: File | None
    number: int = 0

    @property
    def name(self) -> str:
        return _stored_as(self.file) if self.file else ""

    def name_of(self, rank: int) -> str:
        """The name of the file that a task makes; the names of outputs can contain templates."""
        if not self.step or "{{" not in _stored_as(self.step.define.outputs[self.number]):
            return self.name
        return _stored_as(_rendered(self.step, rank)[self.number])


def _stored_as(file: File) -> str:
    return file.upload_name or file.name


def _rendered(step: StepRow, rank: int) -> list[File]:
    return HeldAttempt(step, rank, 0).files(step.define.outputs)


def find(mill: Mill, node: JobNode, run: int | None = None) -> Output:
    """The output of a node. Raises NodeNotFound."""
    job = mill.jobs.get(node.job_id)
    if not job or job.state is JobState.DELETED:
        raise NodeNotFound(str(node))
    step = mill.jobs.step(job.id, run or job.run, node.step)
    if not step:
        if job.state.ended or mill.jobs.step(job.id, run or job.run, 0):
            raise NodeNotFound(str(node))
        return Output(job, None, None)
    files = _rendered(step, 0) if step.kind == "step" else []
    if node.output >= len(files):
        raise NodeNotFound(str(node))
    return Output(job, step, files[node.output], node.output)


def describe(mill: Mill, caller: Caller, node: JobNode, now: int) -> dict[str, Any]:
    """The document of a node."""
    output = find(mill, node)
    check_reads_job(mill, caller, output.job, str(node), now)
    made = _made(mill, output)
    found, total = _parts(mill, output, made), output.step.total if output.step else 0
    complete = bool(found) and len(found) == total
    size = sum(part.size or 0 for part in found)
    ended = output.step.completed_time or output.step.update_time if output.step else 0
    first = found[0] if len(found) == 1 else None
    file = NodeFile(output.name, size, ended, sha256=(first.sha256 or "") if first else "")
    indexed = first.indexed if first else None
    own = None if complete else _uploaded(mill, caller, output)
    attributes = _attributes(output, made) if complete else own.attributes if own else None
    return node_document(
        str(node),
        file if complete else own.file if own else None,
        name=output.name,
        attributes=attributes,
        indexes={indexed["by"]: index_document(indexed["units"], size, ended)} if indexed else {},
        created=output.job.create_time,
        modified=ended or output.job.create_time,
        parts=(total, len(found)) if total > 1 else None,
    )


def download(mill: Mill, caller: Caller, node: JobNode, wanted: PartWanted | None, now: int) -> Download:
    """The file, or a part. Raises NodeWithoutFile until all its tasks succeeded."""
    if caller.work and wanted and (part := _own_part(mill, caller, node, wanted)):
        return part
    output = find(mill, node)
    check_reads_job(mill, caller, output.job, str(node), now)
    return downloads.download(mill, node.job_id, place(mill, output), wanted)


def place(mill: Mill, output: Output) -> Place:
    """The object with the file of an output; the parts of several tasks are joined."""
    found = _parts(mill, output, _made(mill, output))
    if not output.step or not output.file or not found or len(found) != output.step.total:
        raise NodeWithoutFile
    if len(found) == 1:
        return found[0].place
    return join.join(mill, output.step, output.file.name, found).place


class _Uploaded(NamedTuple):
    """The output that an attempt uploaded before its report."""

    file: NodeFile
    attributes: Any


def _uploaded(mill: Mill, caller: Caller, output: Output) -> _Uploaded | None:
    """The output that the attempt of a work token uploaded; None if it is of another step, or a part."""
    step = output.step
    if not caller.work or not step or step.total != 1 or step.index != caller.work.step:
        return None
    held = caller.held(mill)
    head = mill.files.head(mill.files.own(held.output_key(output.name)))
    if not head:
        return None
    file = NodeFile(output.name, head.size, head.modified, sha256=head.labels.get("sha256", ""))
    labelled = head.labels.get("attributes")
    return _Uploaded(file, stored_attributes(mill, held, output.name) if labelled else None)


def _made(mill: Mill, output: Output) -> list[AttemptOutput]:
    return outputs.of_step(mill, output.step) if output.step and output.step.total else []


def _parts(mill: Mill, output: Output, made: Sequence[AttemptOutput]) -> list[Source]:
    step = output.step
    if not step:
        return []
    return [source for each in made for source in matching(mill, step, each, output.name_of(each.rank))]


def _attributes(output: Output, made: Sequence[AttemptOutput]) -> Any:
    stored = (file for each in made for file in each.stored.files if file["name"] == output.name)
    return next((file["attributes"] for file in stored if file.get("attributes") is not None), None)


def _own_part(mill: Mill, caller: Caller, node: JobNode, wanted: PartWanted) -> Download | None:
    """The part that the caller's own task reads: its offsets are already computed."""
    held = caller.held(mill)
    spec, stored = held.spec, held.step.context.get("split")
    origins = held.step.context.get("refs", {})
    inputs = [file for file in spec.inputs if spec.partition and file.name == spec.partition.input]
    if not stored or not inputs or caller.work is None or caller.work.job_id != node.job_id:
        return None
    if not inputs[0].origin or origins.get(inputs[0].origin) != node.step or held.step.total < 2:
        return None
    first, last = split_units(stored.get("units") or 0, held.step.total, held.rank)
    if wanted.part not in (f"{first}-{last}", str(first) if first == last else ""):
        return None
    fetch = split.fetch_part(mill, held, inputs[0])
    source = Place(stored["bucket"], stored["key"])
    head = Head(stored["size"], stored["etag"], 0)
    return Download(mill, node.job_id, source, (head, fetch.first, fetch.end or stored["size"]))


def split_units(total: int, parts: int, rank: int) -> tuple[int, int]:
    """The first and the last unit, from 1, of a part: as even as possible, with the larger parts first."""
    each, more = divmod(total, parts)
    first = rank * each + min(rank, more) + 1
    return first, first + each - (0 if rank < more else 1)


def upload(mill: Mill, caller: Caller, node: JobNode, field: str, file: NewFile, now: int) -> None:
    """Store the output of an attempt that the caller holds; a repeated upload replaces the previous one."""
    held, name = _writer(mill, caller, node, field, now)
    labels = {"sha256": hashlib.sha256(file.content).hexdigest()}
    if file.attributes is not None:
        store_attributes(mill, held, name, file.attributes)
        labels["attributes"] = "1"
    mill.files.write(held.output_key(name), file.content, labels)


def set_attributes(mill: Mill, caller: Caller, node: JobNode, attributes: Any, now: int) -> None:
    """Store the attributes of an output that the caller's attempt uploaded. Raises NodeWithoutFile."""
    held, name = _writer(mill, caller, node, str(caller.work.rank + 1 if caller.work else 1), now)
    store_attributes(mill, held, name, attributes)
    key = held.output_key(name)
    attempts = Attempts(f"the node {node}")
    while True:
        attempts.begin()
        head = mill.files.head(mill.files.own(key))
        if not head:
            raise NodeWithoutFile
        labels = {**head.labels, "attributes": "1"}
        if labels == head.labels or mill.files.relabel(key, labels, head.etag):
            return


def presign(mill: Mill, caller: Caller, node: JobNode, field: str, file: Announced, now: int) -> Presigned:
    """A presigned address to upload the output of an attempt that the caller holds."""
    held, name = _writer(mill, caller, node, field, now)
    return presign_put(mill, held.output_key(name), file)


def _writer(mill: Mill, caller: Caller, node: JobNode, field: str, now: int) -> tuple[HeldAttempt, str]:
    output = find(mill, node, caller.work.run if caller.work else None)
    if not output.step:
        raise NodeNotFound(str(node))
    total = output.step.total
    if field == WHOLE and total > 1:
        raise BadRequest(
            f"the file has {total} parts; send the part of a workunit in a field named by its rank, from 1"
        )
    rank = 0 if field == WHOLE else int(field) - 1
    if not 0 <= rank < total:
        raise BadRequest(f"the file has no part {field}; it has {total}")
    held = upload_attempt(mill, caller, output.job, output.step, rank, str(node), now)
    return held, output.name_of(rank)


def index(mill: Mill, caller: Caller, node: JobNode, kind: str, now: int) -> dict[str, Any]:
    """Count the units of a file: of the one that the caller's attempt stored, or else of the output."""
    output = find(mill, node)
    check_reads_job(mill, caller, output.job, str(node), now)
    if caller.work and output.step and output.step.index == caller.work.step:
        found = mill.files.own(caller.held(mill).output_key(output.name_of(caller.work.rank)))
    else:
        found = place(mill, output)
    head = mill.files.head(found)
    if not head:
        raise NodeWithoutFile
    counted = downloads.count_units(mill, node.job_id, found, head, kind)
    return index_document(counted, head.size, now)
