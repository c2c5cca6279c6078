"""What a worker and Shardmill say to each other about the files of a task."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import Field

from shardmill.model.base import Answer, Count, Model
from shardmill.model.files import File, LocalName, WorkName

PART_BYTES = 64 * 2**20
MAX_PARTS = 1_000
MAX_STORED = 1_000
MAX_STORED_BYTES = 300_000
"""What is said of a task's outputs, attributes included, must fit into a row with its other output."""

MAX_UPLOAD_BYTES = 5 * 2**30  # what S3 takes in one PUT, and copies at once

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


def part_bytes(size: int) -> int:
    """How large the parts of a file are that is stored in parts; the last may be smaller."""
    part = PART_BYTES
    while part * MAX_PARTS < size:
        part *= 2
    return part


def part_ranges(size: int) -> list[tuple[int, int]]:
    """Where each part begins and ends; even an empty file has one."""
    part = part_bytes(size)
    return [(first, min(first + part, size)) for first in range(0, max(size, 1), part)]


class Fetch(Answer):
    """A file for a task's work folder.

    `plain`: an address of the definition, asked only where the worker's allow list lets it; otherwise
    Shardmill signed it. `sha256` is that of the whole object, of which the task may read [first, end) only.
    `missing`: there is nothing to fetch.
    """

    name: LocalName
    into: LocalName | None = Field(default=None, description="a file that this becomes a part of, in order")
    kind: Literal["input", "predata"] = "input"
    url: str = Field(default="", repr=False)
    plain: bool = False
    size: Count | None = None
    sha256: Sha256 | None = None
    etag: str | None = None
    first: Count = 0
    end: Count | None = None
    optional: bool = False
    missing: bool = False

    @property
    def whole(self) -> bool:
        return self.first == 0 and self.end is None

    @property
    def length(self) -> int | None:
        """How many bytes there are to fetch, where that is known."""
        end = self.size if self.end is None else self.end
        return None if end is None else max(0, end - self.first)


class Prepared(Answer):
    """What a task needs before it runs, and the files that it is to make."""

    files: list[Fetch] = Field(default_factory=list)
    outputs: list[File] = Field(default_factory=list)
    environ: dict[str, str] = Field(default_factory=dict, repr=False)


class StoreRequest(Model):
    """Asks where to store an output; `md5s` are those of its parts, in base64. A single one is one PUT."""

    name: WorkName
    size: Count
    md5s: list[str] = Field(min_length=1, max_length=MAX_PARTS)


class StoreAnswer(Answer):
    """An address for each part, and the headers to send along; with `uploadId` it must be completed."""

    name: str
    upload_id: str | None = None
    urls: list[str] = Field(repr=False)
    headers: list[dict[str, str]] = Field(repr=False)


class CompleteRequest(Model):
    """Says that all parts of an output are stored; `etags` are what the store answered for each."""

    name: WorkName
    upload_id: str = Field(min_length=1, max_length=1_024)
    etags: list[str] = Field(min_length=1, max_length=MAX_PARTS)


class Indexed(Model):
    """How many lines, records or bytes a file has."""

    by: Literal["line", "record", "bytes"]
    units: Count


class Stored(Model):
    """An output that a worker stored; `attributes` are what its `attrfile` says."""

    name: WorkName
    size: Count
    sha256: Sha256
    attributes: dict[str, Any] | None = None
    indexed: Indexed | None = None


def in_a_row(files: Iterable[Stored]) -> list[dict[str, Any]]:
    """What a task's row keeps of its outputs."""
    return [file.model_dump(mode="json", exclude_none=True) for file in files]


class UploadRequest(Model):
    """Announces a file that is to come with a Job; larger ones belong into a bucket of yours."""

    size: int = Field(ge=0, le=MAX_UPLOAD_BYTES)
    sha256: Sha256


class Upload(Answer):
    """`upload` is what a JobRequest names; if it is `present` there is nothing left to store."""

    upload: str
    present: bool = False
    url: str | None = Field(default=None, repr=False)
    headers: dict[str, str] = Field(default_factory=dict)


class JobFile(Answer):
    """A file of a Job: an output of a task, or, without a stepName, one that came with the Job."""

    step_name: str | None = None
    index: int | None = Field(default=None, description="of the task that made it")
    name: str
    size: int
    sha256: str
    run: int | None = None
    attempt: int | None = None
    attributes: dict[str, Any] | None = None
    indexed: Indexed | None = Field(default=None, description="what its `uploadIndex` counted")
    url: str = Field(repr=False, description="where to GET it, for fifteen minutes")
