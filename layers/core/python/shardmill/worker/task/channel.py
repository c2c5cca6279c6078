"""Files through which a task reports its progress and its output (JSON for later steps) to the worker."""

from __future__ import annotations

import json
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shardmill.model.job import TaskProgress
from shardmill.model.plain_json import plain_faults
from shardmill.model.worker import MAX_OUTPUT_BYTES, output_size

_MAX_READ_BYTES = 16 * MAX_OUTPUT_BYTES
"""The limit applies to the compact form; the file may have more whitespace and escapes."""

_MAX_MESSAGE = 200
_LINE_BYTES = 4096
_PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,10})?)\s*%?(?:\s+(.*))?\Z", re.ASCII | re.DOTALL)


@dataclass(slots=True)
class LiveStatus:
    """State of a running task shared between threads. Each field has one writer, so no lock is needed."""

    progress: TaskProgress | None = None
    """The progress that the task reports."""
    followed: bool = False
    """Whether a user follows its log."""


class BadOutput(Exception):
    """The output of a task cannot be stored."""


def read_output(path: Path) -> Any:
    """The JSON that a task wrote; None if it wrote none. Raises BadOutput."""
    try:
        data = read_regular(path, _MAX_READ_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadOutput(f"cannot read the output in $SHARDMILL_OUTPUT: {error.strerror}") from error
    return parse_output(data) if data.strip() else None


def parse_output(data: bytes) -> Any:
    """The value of an output. Raises BadOutput if it is too large, not JSON, or cannot be stored."""
    if len(data) > _MAX_READ_BYTES:
        raise _too_large()
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadOutput(f"the output is not JSON: {error}") from None
    for fault in plain_faults(value):
        raise BadOutput(f"the output cannot be stored: {fault.pointer or 'it'} {fault.message}")
    if output_size(value) > MAX_OUTPUT_BYTES:
        raise _too_large()
    return value


def _too_large() -> BadOutput:
    return BadOutput(f"the output has more than {MAX_OUTPUT_BYTES} bytes; write the data to an output file")


def parse_response(path: Path) -> Any:
    """The JSON of a response that a task received; None if it is not JSON or too large to be stored."""
    try:
        return parse_output(read_regular(path, _MAX_READ_BYTES + 1))
    except BadOutput:
        return None


def read_progress(path: Path) -> TaskProgress | None:
    """The progress in the last complete line; None if there is none."""
    try:
        data = read_regular(path, _LINE_BYTES, end=True)
    except OSError:  # the file does not exist yet, or is not a regular file
        return None
    lines = data.rpartition(b"\n")[0].splitlines()
    return parse_progress(lines[-1].decode(errors="replace")) if lines else None


def parse_progress(line: str) -> TaskProgress | None:
    """Parse `42`, `42 message`, `message`, or a JSON object with `percent` and `message`."""
    percent: Any = None
    message: Any = line.strip()
    if message.startswith("{"):
        percent, message = _parse_json(message)
    elif (found := _PERCENT.match(message)) and float(found[1]) <= 100:
        percent, message = float(found[1]), found[2]
    valid = isinstance(percent, (int, float)) and not isinstance(percent, bool) and 0 <= percent <= 100
    percent = float(percent) if valid else None
    message = _printable(message) if isinstance(message, str) else None
    if percent is None and not message:
        return None
    return TaskProgress(percent=percent, message=message or None)


def _parse_json(text: str) -> tuple[Any, Any]:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        return None, text
    return given.get("percent"), given.get("message")


def _printable(text: str) -> str:
    """Replace control characters, which could move a terminal's cursor, and lone surrogates."""
    shown = "".join(each if each.isprintable() else " " for each in text[: 2 * _MAX_MESSAGE])
    return shown.strip()[:_MAX_MESSAGE]


def read_regular(path: Path, most: int, *, end: bool = False) -> bytes:
    """The beginning or end of a regular file. The task controls the path, so links are not followed."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(0, "it is not a regular file")
        return os.pread(descriptor, most, max(0, found.st_size - most) if end else 0)
    finally:
        os.close(descriptor)
