"""Resolve the files of a task to objects in S3: given objects, outputs of other steps, submitted files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from shardmill.aws.files import Place
from shardmill.engine.errors import FileForbidden, FileUnavailable
from shardmill.engine.files import keys, outputs
from shardmill.engine.files.held_attempt import HeldAttempt
from shardmill.engine.files.outputs import AttemptOutput
from shardmill.engine.mill import Mill
from shardmill.model.definition.fields import StepDefine
from shardmill.model.files import File, fits, has_wildcard
from shardmill.store.rows import StepRow


@dataclass(frozen=True, slots=True)
class Source:
    """An object in S3 that becomes the file `name` in the work folder."""

    name: str
    place: Place
    size: int | None = None
    sha256: str | None = None
    indexed: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Upstream:
    """The upstream steps of a step and their outputs; each is read once for all files."""

    mill: Mill
    step: StepRow
    _producers: dict[str, StepRow | None] = field(default_factory=dict)
    _outputs: dict[int, list[AttemptOutput]] = field(default_factory=dict)

    def producer(self, origin: str) -> StepRow | None:
        if origin not in self._producers:
            index = self.step.context["refs"][origin]
            self._producers[origin] = self.mill.jobs.step(self.step.job_id, self.step.run, index)
        return self._producers[origin]

    def outputs_of(self, producer: StepRow) -> list[AttemptOutput]:
        if producer.index not in self._outputs:
            self._outputs[producer.index] = outputs.of_step(self.mill, producer)
        return self._outputs[producer.index]


def sources(upstream: Upstream, rank: int, file: File) -> list[Source]:
    """The objects of a task's file; none if the file is optional and missing. Raises FileUnavailable."""
    mill, step = upstream.mill, upstream.step
    given = step.context.get("given", {}).get(file.name)
    if given and not file.origin:
        place = mill.files.own(keys.submitted_file(step.job_id, file.name))
        return [Source(file.name, place, given["size"], given["sha256"])]
    if file.s3:
        return [Source(file.name, _check_allowed(mill, step, Place(file.s3.bucket, file.s3.key)), file.size)]
    if not file.origin:
        return _missing(file, f"file {file.name!r} has no source and was not submitted with the Job")
    found = list(_from_origin(upstream, rank, file, file.origin))
    if not found:
        return _missing(file, f"step {file.origin!r} produced no file {file.pattern or file.name!r}")
    return found


def _missing(file: File, why: str) -> list[Source]:
    if file.optional:
        return []
    raise FileUnavailable(why)


def _check_allowed(mill: Mill, step: StepRow, place: Place) -> Place:
    """Raise FileForbidden for an object that Shardmill stores for another Job, in any spelling of its key."""
    parts = place.key.split("/")
    if not {".", ".."}.isdisjoint(parts):
        raise FileForbidden(f"the S3 key {place.key!r} must not contain '.' or '..' as a path segment")
    if place.bucket == mill.files.bucket and not keys.owned_by(place.key, step.job_id):
        raise FileForbidden(f"{place.key} in the bucket of Shardmill belongs to another Job")
    node = keys.node_of(place.key) if place.bucket == mill.files.bucket else None
    if node is not None and place not in node_files(mill, step.define):
        raise FileForbidden(f"the node {node[:64]!r} is not named in the definition, without templates")
    return place


def node_files(mill: Mill, step: StepDefine) -> list[Place]:
    """The files of the node store that a definition names; its author was allowed to read them."""
    named = [Place(file.s3.bucket, file.s3.key) for file in (*step.inputs, *step.predata) if file.s3]
    return [each for each in named if each.bucket == mill.files.bucket and keys.node_of(each.key) is not None]


def _from_origin(upstream: Upstream, rank: int, file: File, origin: str) -> Iterator[Source]:
    mill, producer = upstream.mill, upstream.producer(origin)
    if not producer:
        return
    wanted = file.pattern or file.name
    if file.pattern or has_wildcard(wanted):
        for output in upstream.outputs_of(producer):
            yield from matching(mill, producer, output, wanted)
        return
    if producer.total == upstream.step.total and _declares(producer, rank, wanted):
        own = outputs.of_rank(mill, producer, rank)
        found = [own] if own else []
    else:
        found = [output for output in upstream.outputs_of(producer) if _contains(output, wanted)]
    if len(found) > 1:
        raise FileUnavailable(
            f"{len(found)} tasks of step {producer.name!r} produced a file {wanted!r}: read all with a "
            f"pattern such as '*/{wanted}', or use a unique name such as 'part-{{{{ shard.index }}}}'"
        )
    for output in found:
        yield from matching(mill, producer, output, wanted)


def _declares(producer: StepRow, rank: int, name: str) -> bool:
    """Whether the task of this rank declares exactly this output; if so, no other task's file is used."""
    task = HeldAttempt(producer, rank, 0)
    return any((each.upload_name or each.name) == name for each in task.files(task.spec.outputs))


def _contains(output: AttemptOutput, name: str) -> bool:
    return any(each["name"] == name for each in output.stored.files)


def matching(mill: Mill, producer: StepRow, output: AttemptOutput, wanted: str) -> Iterator[Source]:
    """The files of an output that match a pattern by `name` or by `{shard index}/{name}`."""
    shard = output.rank + producer.settings.start_shard_id
    for each in output.stored.files:
        by_index = f"{shard}/{each['name']}"
        local = next((name for name in (each["name"], by_index) if fits(name, wanted)), None)
        if local is None:
            continue
        key = keys.output(
            producer.job_id, output.run, producer.index, output.rank, output.attempt, each["name"]
        )
        yield Source(local, mill.files.own(key), each["size"], each["sha256"], each.get("indexed"))


def known_size(mill: Mill, step: StepRow) -> int:
    """The size of those inputs of a step that other steps produced."""
    upstream = Upstream(mill, step)
    made = [file for file in step.define.inputs if file.origin]
    try:
        rendered = HeldAttempt(step, 0, 0).files(made)
        return sum(source.size or 0 for file in rendered for source in sources(upstream, 0, file))
    except FileUnavailable:
        return 0  # the task fails with a clear reason when it prepares its files
