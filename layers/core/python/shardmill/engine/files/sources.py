"""Where the files of a step come from: somebody's object, a step's output, what came with the Job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from shardmill.aws.files import Place
from shardmill.engine.errors import FileForbidden, FileUnavailable
from shardmill.engine.files import keys, outputs
from shardmill.engine.files.held_attempt import Holding
from shardmill.engine.files.outputs import Left
from shardmill.engine.mill import Mill
from shardmill.model.files import File, fits, has_wildcard
from shardmill.store.rows import StepRow


@dataclass(frozen=True, slots=True)
class Source:
    """An object that becomes a file `name` in a work folder."""

    name: str
    place: Place
    size: int | None = None
    sha256: str | None = None
    indexed: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Upstream:
    """What a step finds upstream; however many files are of one step, it is looked at once."""

    mill: Mill
    step: StepRow
    _makers: dict[str, StepRow | None] = field(default_factory=dict)
    _left: dict[int, list[Left]] = field(default_factory=dict)

    def maker(self, origin: str) -> StepRow | None:
        if origin not in self._makers:
            index = self.step.context["refs"][origin]
            self._makers[origin] = self.mill.jobs.step(self.step.job_id, self.step.run, index)
        return self._makers[origin]

    def left_by(self, maker: StepRow) -> list[Left]:
        if maker.index not in self._left:
            self._left[maker.index] = outputs.of_step(self.mill, maker)
        return self._left[maker.index]


def sources(upstream: Upstream, rank: int, file: File) -> list[Source]:
    """The objects that a file of a task is; none if it is absent and may be. Raises FileUnavailable."""
    mill, step = upstream.mill, upstream.step
    given = step.context.get("given", {}).get(file.name)
    if given and not file.origin:
        place = mill.files.own(keys.submitted_file(step.job_id, file.name))
        return [Source(file.name, place, given["size"], given["sha256"])]
    if file.s3:
        return [Source(file.name, _allowed(mill, step, Place(file.s3.bucket, file.s3.key)), file.size)]
    if not file.origin:
        return _absent(file, f"file {file.name!r} has no source, and none came with the Job")
    found = list(_of_origin(upstream, rank, file, file.origin))
    if not found:
        return _absent(file, f"step {file.origin!r} made no file {file.pattern or file.name!r}")
    return found


def _absent(file: File, why: str) -> list[Source]:
    if file.optional:
        return []
    raise FileUnavailable(why)


def _allowed(mill: Mill, step: StepRow, place: Place) -> Place:
    """What Shardmill keeps for Jobs is read by its own Job only, however its key is written."""
    parts = place.key.split("/")
    if not {".", ".."}.isdisjoint(parts):
        raise FileForbidden(
            f"{place.key!r} is refused as a key in S3: '.' and '..' in it may be read as folders"
        )
    if place.bucket == mill.files.bucket and not keys.owned_by(place.key, step.job_id):
        raise FileForbidden(f"{place.key} in the bucket of Shardmill belongs to another Job")
    return place


def _of_origin(upstream: Upstream, rank: int, file: File, origin: str) -> Iterator[Source]:
    mill, maker = upstream.mill, upstream.maker(origin)
    if not maker:
        return
    wanted = file.pattern or file.name
    if file.pattern or has_wildcard(wanted):
        for left in upstream.left_by(maker):
            yield from _matching(mill, maker, left, wanted)
        return
    if maker.total == upstream.step.total and _makes(maker, rank, wanted):
        own = outputs.of_rank(mill, maker, rank)
        found = [own] if own else []
    else:
        found = [left for left in upstream.left_by(maker) if _has(left, wanted)]
    if len(found) > 1:
        raise FileUnavailable(
            f"{len(found)} tasks of step {maker.name!r} made a file {wanted!r}: read them all by a pattern "
            f"such as '*/{wanted}', or give each a name of its own such as 'part-{{{{ shard.index }}}}'"
        )
    for left in found:
        yield from _matching(mill, maker, left, wanted)


def _makes(maker: StepRow, rank: int, name: str) -> bool:
    """Whether a task is to make a file of this very name: if it did not, another task's is not it."""
    task = Holding(maker, rank, 0)
    return any((each.upload_name or each.name) == name for each in task.files(task.spec.outputs))


def _has(left: Left, name: str) -> bool:
    return any(each["name"] == name for each in left.kept.files)


def _matching(mill: Mill, maker: StepRow, left: Left, wanted: str) -> Iterator[Source]:
    """The files of a task that a pattern names: by their names, or by the task's index and their names."""
    shard = left.rank + maker.settings.start_shard_id
    for each in left.kept.files:
        by_index = f"{shard}/{each['name']}"
        local = next((name for name in (each["name"], by_index) if fits(name, wanted)), None)
        if local is None:
            continue
        key = keys.output(maker.job_id, left.run, maker.index, left.rank, left.attempt, each["name"])
        yield Source(local, mill.files.own(key), each["size"], each["sha256"], each.get("indexed"))
