"""The files of a step, and the partition of one of them among its tasks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from shardmill.model.base import Count, Limit, Model, Name

_SEPARATOR = re.compile(r"[/\\]")
_DRIVE = re.compile(r"[a-zA-Z]:")
_NOT_STORABLE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
MAX_NAME_BYTES = 800
"""An S3 key, which has a prefix before the name, is limited to 1,024 bytes."""


def leaves_work_folder(name: str) -> bool:
    """Whether a file of this name would be outside the work folder on any operating system."""
    parts = _SEPARATOR.split(name)
    inside = [part for part in parts if part not in ("", ".")]
    return not inside or parts[0] == "" or ".." in parts or _DRIVE.match(name) is not None or "\0" in name


def name_fault(name: str) -> str | None:
    """The fault of a file name; None if it is valid."""
    if leaves_work_folder(name):
        return "must be a relative path inside the work folder, without '..'"
    if _NOT_STORABLE.search(name):
        return "must not contain control characters or unpaired surrogates"
    if "{{" not in name and not {"", "."}.isdisjoint(name.split("/")):
        return "must not contain './' or '//', or end with '/'"
    return None


def _local_name(name: str) -> str:
    if wrong := name_fault(name):
        raise PydanticCustomError("bad-file-name", "{wrong}", {"wrong": wrong})
    return name


def _work_name(name: str) -> str:
    if len(_local_name(name).encode()) > MAX_NAME_BYTES:
        raise PydanticCustomError("bad-file-name", "must have at most {most} bytes", {"most": MAX_NAME_BYTES})
    return name


# Without names in which a {{ }} expression could become an empty part.
_PART = r"(?!\.{1,2}(?:[/\\]|$))[^/\\\x00-\x1f\x7f\ufffe\uffff]+"
_SCHEMA = {"pattern": rf"^(?![a-zA-Z]:){_PART}(?:[/\\]{_PART})*$"}

LocalName = Annotated[str, AfterValidator(_local_name)]
WorkName = Annotated[
    str, AfterValidator(_work_name), Field(json_schema_extra={**_SCHEMA, "maxLength": MAX_NAME_BYTES})
]


def has_wildcard(name: str) -> bool:
    return any(sign in name for sign in "*?[")


def fits(name: str, wanted: str) -> bool:
    """Whether a file name equals a name or matches a pattern."""
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
        default=None, description="the unit to count in an output, for a later step that splits it"
    )
    attrfile: WorkName | None = None
    pattern: str | None = Field(
        default=None,
        description="files of the origin to join into this one, in the order of its tasks",
    )


class RunFile(File):
    """A file of a step or task; after it has run, with the size of the file itself.

    For a pattern, size and units are the totals of its files.
    """

    total_index: Count | None = Field(
        default=None, description="the number of lines, records or bytes, where they were counted"
    )

    @classmethod
    def of(cls, file: File, size: int | None = None, total_index: int | None = None) -> RunFile:
        """A file with its size, or with the required size if it is not known."""
        given = {name: getattr(file, name) for name in type(file).model_fields}
        return cls.model_construct(
            **given | {"size": file.size if size is None else size, "total_index": total_index}
        )


def declared_files(listed: Iterable[File]) -> list[RunFile]:
    """Files as their step declares them."""
    return [RunFile.of(file) for file in listed]


class Partition(Model):
    """Splits an input into byte ranges that end at the end of a line or record."""

    input: str = Field(min_length=1)
    index: Literal["line", "record", "bytes"] = "line"
    total_index: Count | None = None
    max_part_size_mb: Limit | None = None
    options: str | None = None
    by_units: bool = Field(
        default=False,
        description="give tasks equal numbers of lines, records or chunks instead of equal numbers of bytes",
    )
    unit_mb: Limit | None = Field(
        default=None, description="with byUnits: a unit is a chunk of about this many MB"
    )
    max_units: Limit | None = Field(default=None, description="with byUnits: the most units of a task")
