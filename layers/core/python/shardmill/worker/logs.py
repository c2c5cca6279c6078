"""The log of a task: its end goes into the result, a longer one into S3 in chunks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from botocore.exceptions import BotoCoreError, ClientError

from shardmill.aws import clients
from shardmill.engine.files import keys
from shardmill.engine.task_id import parse_task_id
from shardmill.model.worker import Lease

TAIL_BYTES = 4096
CHUNK_BYTES = 1_000_000
MAX_CHUNKS = 1_000
"""The maximum number of whole chunks of a stream."""

MAX_PIECES = 10_000
"""The maximum number of pieces of a followed stream; after that, whole chunks only."""

Stream = Literal["stdout", "stderr"]


class LogsNotStored(Exception):
    """The upload of a log failed."""


@dataclass(frozen=True, slots=True)
class Part:
    """The bytes [start, end) of a stream, in chunks of at most 1 MB, numbered from `first`."""

    path: Path
    start: int
    end: int
    first: int = 0

    @property
    def count(self) -> int:
        return -(-(self.end - self.start) // CHUNK_BYTES)

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        with self.path.open("rb") as file:
            file.seek(self.start)
            for at in range(self.count):
                yield (
                    self.first + at,
                    file.read(min(CHUNK_BYTES, self.end - self.start - at * CHUNK_BYTES)),
                )


class LogStore(Protocol):
    def store(self, lease: Lease, stream: Stream, part: Part) -> None:
        """Upload a part of a stream. Raises LogsNotStored."""


def tail(path: Path) -> str:
    """The last 4 KB as text, from a whole character on; invalid UTF-8 is replaced."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - TAIL_BYTES))
        data = file.read(TAIL_BYTES)
    if size > TAIL_BYTES:
        data = data[_first_whole(data) :]
    return fitting(data.decode(errors="replace"))


def fitting(text: str) -> str:
    """The end of a text, at most 4 KB as UTF-8 (a replaced byte becomes three)."""
    data = text.encode()
    if len(data) <= TAIL_BYTES:
        return text
    data = data[-TAIL_BYTES:]
    return data[_first_whole(data) :].decode()


def _first_whole(data: bytes) -> int:
    """The index of the first character; at most three continuation bytes precede it."""
    return next((at for at in range(min(4, len(data))) if data[at] & 0xC0 != 0x80), 0)


class BucketLogs:
    """Uploads directly to S3, for workers with an IAM role."""

    def __init__(self, bucket: str) -> None:
        self._bucket = bucket

    def store(self, lease: Lease, stream: Stream, part: Part) -> None:
        place = parse_task_id(lease.task_id)
        if not place:
            raise LogsNotStored(f"{lease.task_id!r} is not a task id")
        prefix = keys.log(place[0], lease.run, place[1], place[2], lease.attempt, stream)
        try:
            for number, data in part:
                clients.s3().put_object(Bucket=self._bucket, Key=keys.log_chunk(prefix, number), Body=data)
        except (BotoCoreError, ClientError) as error:
            raise LogsNotStored(str(error)) from error
