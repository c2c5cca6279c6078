"""The files of a step, and how one of them is split among its tasks."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from shardmill.model.base import Count, Limit, Model, Name

_SEPARATOR = re.compile(r"[/\\]")
_DRIVE = re.compile(r"[a-zA-Z]:")
_UNKEEPABLE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
MAX_NAME_BYTES = 800
"""With what stands before it, a name must fit into the 1,024 bytes of a key in S3."""


def leaves_work_folder(name: str) -> bool:
    """Whether a file of this name would not be inside the work folder, on any system."""
    parts = _SEPARATOR.split(name)
    inside = [part for part in parts if part not in ("", ".")]
    return not inside or parts[0] == "" or ".." in parts or _DRIVE.match(name) is not None or "\0" in name


def name_fault(name: str) -> str | None:
    """What a file's name must be and is not, if there is anything."""
    if leaves_work_folder(name):
        return "must be a path inside the work folder: relative, and without '..'"
    if _UNKEEPABLE.search(name):
        return "must be text without control characters: no store keeps a file of such a name"
    if "{{" not in name and not {"", "."}.isdisjoint(name.split("/")):
        return "must be written without './', '//' and a '/' at its end"
    return None


def _local_name(name: str) -> str:
    if wrong := name_fault(name):
        raise PydanticCustomError("bad-file-name", "{wrong}", {"wrong": wrong})
    return name


def _work_name(name: str) -> str:
    if len(_local_name(name).encode()) > MAX_NAME_BYTES:
        raise PydanticCustomError("bad-file-name", "must have {most} bytes at most", {"most": MAX_NAME_BYTES})
    return name


LocalName = Annotated[str, AfterValidator(_local_name)]
WorkName = Annotated[str, AfterValidator(_work_name)]


def has_wildcard(name: str) -> bool:
    return any(sign in name for sign in "*?[")


def fits(name: str, wanted: str) -> bool:
    """Whether a file is the one that is named, or one of those that a pattern stands for."""
    return name == wanted or (has_wildcard(wanted) and fnmatchcase(name, wanted))


class S3Object(Model):
    bucket: str = Field(min_length=3)
    key: str = Field(min_length=1)


class File(Model):
    """An input, output or reference file of a step."""

    name: WorkName
    host: str | None = None
    node: str | None = None
    url: str | None = None
    s3: S3Object | None = None
    size: Count | None = None
    origin: Name | None = None
    nonzero: bool = False
    optional: bool = False
    upload_name: WorkName | None = None
    upload_index: Literal["line", "record", "bytes"] | None = Field(
        default=None, description="count these in an output, so that a step which splits it knows"
    )
    attrfile: WorkName | None = None
    pattern: str | None = Field(
        default=None,
        description="files of the origin that are joined into this one, in the order of its tasks",
    )


class Partition(Model):
    """Splits one input by byte ranges that end where a line or a record ends."""

    input: str = Field(min_length=1)
    index: Literal["line", "record", "bytes"] = "line"
    total_index: Count | None = None
    max_part_size_mb: Limit | None = None
    options: str | None = None
