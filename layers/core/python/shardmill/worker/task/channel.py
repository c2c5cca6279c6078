"""What a task tells its worker in files: how far it is, and data for later steps."""

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

_MOST_READ = 16 * MAX_OUTPUT_BYTES
"""An output is measured as it is kept, without the spaces and escapes that a file may spend on it."""

_MAX_MESSAGE = 200
_LINE_BYTES = 4096
_PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,10})?)\s*%?(?:\s+(.*))?\Z", re.ASCII | re.DOTALL)


class BadOutput(Exception):
    """What a task gives as its output cannot be kept."""


def read_output(path: Path) -> Any:
    """The JSON that a task wrote, None if it wrote none. Raises BadOutput."""
    try:
        data = _read(path, _MOST_READ + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadOutput(f"the output in $SHARDMILL_OUTPUT cannot be read: {error.strerror}") from error
    return parse_output(data) if data.strip() else None


def parse_output(data: bytes) -> Any:
    """The value of an output. Raises BadOutput if it is too large, no JSON, or JSON that cannot be stored."""
    if len(data) > _MOST_READ:
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
    return BadOutput(f"the output has more than {MAX_OUTPUT_BYTES} bytes; put the data in a file")


def answer_of(path: Path) -> Any:
    """The JSON of an answer that a task was given, None if it is none or too large to be kept."""
    try:
        return parse_output(_read(path, _MOST_READ + 1))
    except BadOutput:
        return None


def read_progress(path: Path) -> TaskProgress | None:
    """What the last whole line says; None where there is none, or no sense in it."""
    try:
        data = _read(path, _LINE_BYTES, end=True)
    except OSError:  # not there yet, or no file at all
        return None
    lines = data.rpartition(b"\n")[0].splitlines()
    return parse_progress(lines[-1].decode(errors="replace")) if lines else None


def parse_progress(line: str) -> TaskProgress | None:
    """`42`, `42 some words`, `some words`, or JSON with a percent and a message."""
    percent: Any = None
    message: Any = line.strip()
    if message.startswith("{"):
        percent, message = _of_json(message)
    elif (found := _PERCENT.match(message)) and float(found[1]) <= 100:
        percent, message = float(found[1]), found[2]
    number = isinstance(percent, (int, float)) and not isinstance(percent, bool) and 0 <= percent <= 100
    percent = float(percent) if number else None
    message = _plain(message) if isinstance(message, str) else None
    if percent is None and not message:
        return None
    return TaskProgress(percent=percent, message=message or None)


def _of_json(text: str) -> tuple[Any, Any]:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        return None, text
    return given.get("percent"), given.get("message")


def _plain(text: str) -> str:
    """Without what would move a terminal's cursor, and half characters."""
    shown = "".join(each if each.isprintable() else " " for each in text[: 2 * _MAX_MESSAGE])
    return shown.strip()[:_MAX_MESSAGE]


def _read(path: Path, most: int, *, end: bool = False) -> bytes:
    """The beginning or end of a plain file; never through a link: the task chose what lies there."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(0, "it is not a plain file")
        return os.pread(descriptor, most, max(0, found.st_size - most) if end else 0)
    finally:
        os.close(descriptor)


@dataclass(slots=True)
class Live:
    """Written by one side each, read by the other: no lock is needed for a single value."""

    progress: TaskProgress | None = None
    """How far the task says it is."""
    followed: bool = False
    """Somebody reads its log now."""
