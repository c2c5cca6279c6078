"""Where the files of a step come from: somebody's object, a step's output, what came with the Job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from shardmill.aws.files import Place
from shardmill.engine import leavings
from shardmill.engine.errors import FileForbidden, FileUnavailable
from shardmill.engine.leavings import Left
from shardmill.engine.mill import Mill
from shardmill.model.files import File, has_wildcard
from shardmill.store.rows import StepRow

FILES, LOGS, UPLOADS = "files", "logs", "uploads"
_GIVEN = "given"


@dataclass(frozen=True, slots=True)
class Source:
    """An object that becomes a file `name` in a work folder."""

    name: str
    place: Place
    size: int | None = None
    sha256: str | None = None
    indexed: Mapping[str, Any] | None = None


def given_key(job_id: str, name: str) -> str:
    """Where a file is kept that came with a Job."""
    return f"{FILES}/{job_id}/{_GIVEN}/{name}"


def output_key(job_id: str, step: int, left: Left, name: str) -> str:
    return f"{FILES}/{job_id}/{left.run}/{step}/{left.rank}/{left.attempt}/{name}"


def sources(mill: Mill, step: StepRow, rank: int, file: File) -> list[Source]:
    """The objects that a file of a task is; none if it is absent and may be. Raises FileUnavailable."""
    given = step.context.get("given", {}).get(file.name)
    if given and not file.origin:
        place = mill.files.own(given_key(step.job_id, file.name))
        return [Source(file.name, place, given["size"], given["sha256"])]
    if file.s3:
        return [Source(file.name, _allowed(mill, step, Place(file.s3.bucket, file.s3.key)), file.size)]
    if not file.origin:
        return _absent(file, f"file {file.name!r} has no source, and none came with the Job")
    found = list(_of_origin(mill, step, rank, file))
    if not found:
        return _absent(file, f"step {file.origin!r} made no file {file.pattern or file.name!r}")
    return found


def _absent(file: File, why: str) -> list[Source]:
    if file.optional:
        return []
    raise FileUnavailable(why)


def _allowed(mill: Mill, step: StepRow, place: Place) -> Place:
    """What Shardmill keeps for Jobs is read by its own Job only."""
    area = place.key.split("/")[0]
    own = place.key.startswith(f"{FILES}/{step.job_id}/")
    if place.bucket == mill.files.bucket and area in (FILES, LOGS, UPLOADS) and not own:
        raise FileForbidden(f"{place.key} in the bucket of Shardmill belongs to another Job")
    return place


def _of_origin(mill: Mill, step: StepRow, rank: int, file: File) -> Iterator[Source]:
    index = step.context["refs"][file.origin]
    maker = mill.jobs.step(step.job_id, step.run, index)
    if not maker:
        return
    wanted = file.pattern or file.name
    if file.pattern or has_wildcard(wanted):
        for left in leavings.of_step(mill, maker):
            yield from _matching(mill, maker, left, wanted)
        return
    own = leavings.of_rank(mill, maker, rank) if maker.total == step.total else None
    listed = [own] if own and _has(own, wanted) else leavings.of_step(mill, maker)
    found = [left for left in listed if _has(left, wanted)]
    if len(found) > 1:
        raise FileUnavailable(
            f"{len(found)} tasks of step {maker.name!r} made a file {wanted!r}: read them all by a pattern "
            f"such as '*/{wanted}', or give each a name of its own such as 'part-{{{{ shard.index }}}}'"
        )
    for left in found:
        yield from _matching(mill, maker, left, wanted)


def _has(left: Left, name: str) -> bool:
    return any(each["name"] == name for each in left.kept.files)


def _matching(mill: Mill, maker: StepRow, left: Left, wanted: str) -> Iterator[Source]:
    """The files of a task that a pattern names: by their names, or by the task's index and their names."""
    shard = left.rank + int(maker.spec.get("startShardId", 0))
    for each in left.kept.files:
        by_index = f"{shard}/{each['name']}"
        local = next((name for name in (each["name"], by_index) if fnmatchcase(name, wanted)), None)
        if local is None:
            continue
        key = output_key(maker.job_id, maker.index, left, each["name"])
        yield Source(local, mill.files.own(key), each["size"], each["sha256"], each.get("indexed"))
