"""Splits a large object into parts that end at the end of a record.

The object is never read as a whole: each cut has a nominal position, and a few bytes from there on show the
first boundary. A boundary is a newline in a certain context, so a pattern that begins with the newline finds
it. Only FASTQ needs more, because its quality lines may look like any other line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

Read = Callable[[int, int], bytes]
"""(offset, length) -> the bytes; fewer only at the end of the object."""

HEAD_BYTES = 65_536
"""How many bytes `check_splittable` and `record_kind` need from the beginning of an object."""

_WINDOW = 65_536
_LONGEST_READ = 16 << 20  # each of sixteen threads may hold one
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_OPTIONS = "'fasta', 'fastq', or 'separator=TEXT' where a line TEXT ends each record"

# Name, magic bytes and file extensions of each format.
_PACKED: tuple[tuple[str, bytes, tuple[str, ...]], ...] = (
    ("gzip", rb"\x1f\x8b", (".gz", ".tgz", ".bgz", ".bgzf", ".bam")),
    ("bzip2", rb"BZh[1-9](1AY&SY|\x17rE8P\x90)", (".bz2", ".tbz", ".tbz2")),
    ("xz", rb"\xfd7zXZ\x00", (".xz", ".txz")),
    ("lzma", rb"\x5d\x00\x00", (".lzma",)),
    ("lzip", rb"LZIP\x01", (".lz",)),
    ("lzop", rb"\x89LZO\x00", (".lzo",)),
    ("zstd", rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18", (".zst", ".zstd", ".tzst")),
    ("lz4", rb"\x04\x22\x4d\x18|\x02\x21\x4c\x18", (".lz4",)),
    ("snappy", rb"\xff\x06\x00\x00sNaPpY", (".snappy", ".sz")),
    ("compress", rb"\x1f[\x9d\xa0]", (".z",)),
    ("zip", rb"PK(\x03\x04|\x05\x06|\x07\x08)", (".zip", ".jar")),
    ("7z", rb"7z\xbc\xaf\x27\x1c", (".7z",)),
    ("rar", rb"Rar!\x1a\x07", (".rar",)),
    ("tar", rb".{257}ustar", (".tar",)),
    ("brotli", rb"(?!)", (".br",)),
    ("deflate", rb"(?!)", (".deflate",)),
)


class SplitError(Exception):
    """The object cannot be split; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of record; `newline` matches a newline before a boundary and looks back `before` bytes."""

    name: str
    newline: re.Pattern[bytes]
    before: int = 0


BYTES = Kind("bytes", re.compile(rb""))
LINE = Kind("line", re.compile(rb"\n"))
FASTA = Kind("fasta", re.compile(rb"\n(?=>)"))
FASTQ = Kind("fastq", re.compile(rb"\n"))


def separated_by(text: str) -> Kind:
    """Records that end with a line that equals the text, or with an empty line."""
    if "\n" in text or "\r" in text:
        raise SplitError(f"the separator {text!r} must be a single line without the newline")
    line = text.encode()
    quoted = re.escape(line)
    pattern = rb"\n(?:(?<=\n" + quoted + rb"\n)|(?<=\n" + quoted + rb"\r\n))"
    return Kind("separator", re.compile(pattern), before=len(line) + 2)


def part_count(size: int, *, totalwork: int | None, max_part_bytes: int | None) -> int:
    """The number of parts: enough for the size limit, at least `totalwork`, at most one for each byte."""
    by_size = -(-size // max_part_bytes) if max_part_bytes else 1
    return max(1, min(size, max(by_size, totalwork or 1)))


def check_splittable(name: str, head: bytes) -> None:
    """Raise SplitError for an object that is compressed or an archive, by its first bytes or its name."""
    for packing, magic, endings in _PACKED:
        begins = re.match(magic, head, re.DOTALL) is not None
        if begins or name.lower().endswith(endings):
            sign = "first bytes" if begins else "name"
            raise SplitError(
                f"{name!r} cannot be split: by its {sign} it is compressed or an archive ({packing}), and "
                "parts of it cannot be read on their own. Decompress it first, or omit 'partition'"
            )


def record_kind(head: bytes, options: str | None) -> Kind:
    """The kind of records: according to the options, else detected from the first bytes."""
    text = head.removeprefix(_BYTE_ORDER_MARK).lstrip()
    if options is None or not options.strip():
        kind = _detected(text)
    elif options.startswith("separator="):
        kind = separated_by(options.removeprefix("separator="))
    else:
        known = {"fasta": FASTA, "fastq": FASTQ}.get(options.strip().lower())
        if known is None:
            raise SplitError(f"{options!r} is not an option of a partition by record: use {_OPTIONS}")
        kind = known
    if kind == FASTQ:
        _four_lines(text, 0, whole=False)
    return kind


def _detected(text: bytes) -> Kind:
    if not text:
        return LINE  # nothing to split
    kind = {b">": FASTA, b";": FASTA, b"@": FASTQ}.get(text[:1])
    if kind is None:
        raise SplitError(
            f"an object that begins with {text[:20]!r} is neither FASTA ('>') nor FASTQ ('@'): set the "
            f"partition's 'options' to {_OPTIONS}; or split it by 'line'"
        )
    return kind


def nominal(size: int, parts: int) -> list[int]:
    """The cuts if any byte could end a part: as even as possible, with the larger parts first."""
    each, more = divmod(size, parts)
    return [part * each + min(part, more) for part in range(1, parts)]


def find_cut(read: Read, size: int, position: int, kind: Kind, *, window: int = _WINDOW) -> int:
    """The first boundary at or after a position; the size of the object if there is none."""
    found = _first(read, size, position, size, kind, window)
    return size if found is None else found


def cuts(
    read: Read, size: int, parts: int, kind: Kind, *, threads: int = 16, window: int = _WINDOW
) -> list[int]:
    """The boundaries of the parts, from 0 to size: each the first at or after its nominal position.

    A search ends where the next one begins, so that a record longer than several parts is read once; the
    parts inside it are empty, with equal boundaries.
    """
    places = [*nominal(size, parts), size]

    def search(place: int, limit: int) -> int | None:
        return _first(read, size, place, limit, kind, window)

    with ThreadPoolExecutor(max_workers=max(1, min(threads, parts)), thread_name_prefix="split") as pool:
        found = list(pool.map(search, places, places[1:]))
    boundaries = [size]
    for boundary in reversed(found):
        boundaries.append(boundaries[-1] if boundary is None else boundary)
    return [0, *reversed(boundaries)]


def distinct(boundaries: Sequence[int]) -> list[int]:
    """The boundaries without empty parts; an empty object keeps one part."""
    kept = [after for before, after in pairwise(boundaries) if after > before]
    return [boundaries[0], *(kept or boundaries[-1:])]


@dataclass(slots=True)
class _View:
    """The bytes read so far, from `base` on and never beyond `stop`."""

    read: Read
    stop: int
    base: int
    data: bytes = b""

    @property
    def end(self) -> int:
        return self.base + len(self.data)

    def forget(self, before: int) -> None:
        if before > self.base:
            self.data, self.base = self.data[before - self.base :], before

    def extend(self, to: int) -> None:
        length = min(to, self.stop) - self.end
        more = self.read(self.end, length)
        if len(more) != length:
            raise SplitError(
                f"{length} bytes were requested at byte {self.end} and {len(more)} received: the object has "
                "another size than expected, or has changed. Submit again when nothing writes to it"
            )
        self.data += more


def _first(read: Read, size: int, position: int, limit: int, kind: Kind, window: int) -> int | None:
    """The first boundary at or after a position; None if it is not before the limit."""
    if kind == BYTES or position <= 0 or position >= size:
        return max(0, min(position, size))
    base = position - 1 - kind.before
    view = _View(read, size if kind == FASTQ else limit, max(0, base))
    if base < 0:
        view.base, view.data = -1, b"\n"  # the first byte begins a line
    lengths = _lengths(window)
    found = _newline(view, position, limit, kind, lengths)
    if kind != FASTQ or found is None:
        return found
    if found >= limit:
        return None
    view.forget(found)
    while (start := _four_lines(view.data, found, whole=view.end == size)) is None:
        view.extend(view.end + next(lengths))
    return start


def _lengths(window: int) -> Iterator[int]:
    """The sizes of successive reads: each twice the one before, up to a limit."""
    length = max(1, window)
    while True:
        yield length
        length = max(length, min(2 * length, _LONGEST_READ))


def _newline(view: _View, position: int, limit: int, kind: Kind, lengths: Iterator[int]) -> int | None:
    """The first position at or after `position` that follows a newline of the kind; None beyond the limit."""
    at = position - 1
    while (match := kind.newline.search(view.data, at - view.base)) is None:
        if view.end >= limit:
            return None
        at = max(at, view.end - 1)
        view.forget(at - kind.before)
        view.extend(max(position, view.end) + next(lengths))
    return view.base + match.end()


def _four_lines(data: bytes, offset: int, *, whole: bool) -> int | None:
    """The start of the first FASTQ record in data that begins with a line; None if more must be read.

    A quality line may begin with '@', but the second line after it is a sequence, which has no '+'.
    """
    lines = data.split(b"\n", 8)
    start = offset
    for first, line in enumerate(lines[:4]):
        after = lines[first + 4 :]
        blank = not any(each.strip() for each in after)
        if blank and not whole:
            return None
        if _is_record(lines[first : first + 4]) and (blank or after[0].startswith(b"@")):
            return start
        start += len(line) + 1
    if whole and data.rstrip().count(b"\n") < 3:
        return offset + len(data)
    raise SplitError(
        f"no FASTQ record of four lines (@name, sequence, +, quality of the same length) was found from byte "
        f"{offset} on. FASTQ with sequences that span several lines cannot be split: write each sequence and "
        "each quality on one line"
    )


def _is_record(lines: Sequence[bytes]) -> bool:
    missing = [b""] * (4 - len(lines))
    name, sequence, plus, quality = (line.removesuffix(b"\r") for line in (*lines, *missing))
    return name.startswith(b"@") and plus.startswith(b"+") and len(sequence) == len(quality)
