"""Requests and answers about the files of tasks and jobs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import Field

from shardmill.model.base import Answer, Count, Request
from shardmill.model.files import File, LocalName, WorkName

PART_BYTES = 64 * 2**20
MAX_PARTS = 1_000
MAX_STORED = 1_000
MAX_STORED_BYTES = 300_000
"""The descriptions of a task's output files, attributes included, must fit into a row beside its output."""

MAX_UPLOAD_BYTES = 5 * 2**30  # the limit of S3 for one PUT and for one copy

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


def part_bytes(size: int) -> int:
    """The part size of a multipart upload; the last part may be smaller."""
    part = PART_BYTES
    while part * MAX_PARTS < size:
        part *= 2
    return part


def part_ranges(size: int) -> list[tuple[int, int]]:
    """The first byte and the end of each part; an empty file has one part."""
    part = part_bytes(size)
    return [(first, min(first + part, size)) for first in range(0, max(size, 1), part)]


MAX_CHECKPOINT_BYTES = 65_536


class Fetch(Answer):
    """A file to download into a task's work folder.

    `plain`: a URL from the definition, which the worker requests only if its allow list permits it; otherwise
    the URL is presigned. `sha256` is the checksum of the whole object, even if the task reads only [first,
    end). `missing`: the file does not exist.
    """

    name: LocalName
    into: LocalName | None = Field(
        default=None, description="the file that this one is appended to, in order"
    )
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
        """The number of bytes to download, if it is known."""
        end = self.size if self.end is None else self.end
        return None if end is None else max(0, end - self.first)


class Prepared(Answer):
    """The files and secrets that a task needs before it runs, and the output files to store after it."""

    files: list[Fetch] = Field(default_factory=list)
    outputs: list[File] = Field(default_factory=list)
    environ: dict[str, str] = Field(default_factory=dict, repr=False)


class StoreRequest(Request):
    """Requests URLs to store an output; `md5s` are the MD5s of its parts in base64, a single one for one
    PUT."""

    name: WorkName
    size: Count
    md5s: list[str] = Field(min_length=1, max_length=MAX_PARTS)


class StoreAnswer(Answer):
    """A URL and headers for each part; an upload with an `uploadId` must be completed."""

    name: str
    upload_id: str | None = None
    urls: list[str] = Field(repr=False)
    headers: list[dict[str, str]] = Field(repr=False)


class CompleteRequest(Request):
    """Completes a multipart upload; `etags` are the ETags that S3 returned for the parts."""

    name: WorkName
    upload_id: str = Field(min_length=1, max_length=1_024)
    etags: list[str] = Field(min_length=1, max_length=MAX_PARTS)


class Indexed(Request):
    """The number of lines, records or bytes of a file."""

    by: Literal["line", "record", "bytes"]
    units: Count


class Stored(Request):
    """An output file that a worker stored; `attributes` are the content of its `attrfile`."""

    name: WorkName
    size: Count
    sha256: Sha256
    attributes: dict[str, Any] | None = None
    indexed: Indexed | None = None


def as_stored(files: Iterable[Stored]) -> list[dict[str, Any]]:
    """The descriptions of output files as a row stores them."""
    return [file.model_dump(mode="json", exclude_none=True) for file in files]


class UploadRequest(Request):
    """Announces a file to submit with a job; put larger files into your own bucket."""

    size: int = Field(ge=0, le=MAX_UPLOAD_BYTES)
    sha256: Sha256


class Upload(Answer):
    """`upload` is the id for a JobRequest; if `present`, the file is already stored."""

    upload: str
    present: bool = False
    url: str | None = Field(default=None, repr=False)
    headers: dict[str, str] = Field(default_factory=dict)


class JobFile(Answer):
    """A file of a job: an output of a task, or, without stepName, a file submitted with the job."""

    step_name: str | None = None
    index: int | None = Field(default=None, description="the index of the task that stored it")
    name: str
    size: int
    sha256: str
    run: int | None = None
    attempt: int | None = None
    attributes: dict[str, Any] | None = None
    indexed: Indexed | None = Field(default=None, description="the units counted by its `uploadIndex`")
    url: str = Field(repr=False, description="a presigned URL, valid for fifteen minutes")
