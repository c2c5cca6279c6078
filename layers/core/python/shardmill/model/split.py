"""Where to cut one large object into parts that end where a record ends.

Nothing reads the whole object: each cut has a place where it should be, and a few bytes from there on show
the first boundary. A boundary is always a newline together with what stands around it, so a pattern that
begins with the newline finds it. Only FASTQ needs more: its quality lines may look like any other line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

Read = Callable[[int, int], bytes]
"""(offset, length) -> the bytes there; fewer only where the object ends."""

HEAD_BYTES = 65_536
"""How much of an object's beginning `check_splittable` and `record_kind` like to see."""

_WINDOW = 65_536
_LONGEST_READ = 16 << 20  # sixteen threads hold as many of these
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_OPTIONS = "'fasta', 'fastq', or 'separator=TEXT' where a line TEXT ends each record"

# The name of a format, how its content begins, and how its files are called.
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
    """The object cannot be split this way; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What a record is: `newline` finds those that a boundary follows, and looks back `before` bytes."""

    name: str
    newline: re.Pattern[bytes]
    before: int = 0


BYTES = Kind("bytes", re.compile(rb""))
LINE = Kind("line", re.compile(rb"\n"))
FASTA = Kind("fasta", re.compile(rb"\n(?=>)"))
FASTQ = Kind("fastq", re.compile(rb"\n"))


def separated_by(text: str) -> Kind:
    """Records that end with a line of this text; without text, with an empty line."""
    if "\n" in text or "\r" in text:
        raise SplitError(f"the separator {text!r} must be one line, without the newline")
    line = text.encode()
    quoted = re.escape(line)
    pattern = rb"\n(?:(?<=\n" + quoted + rb"\n)|(?<=\n" + quoted + rb"\r\n))"
    return Kind("separator", re.compile(pattern), before=len(line) + 2)


def part_count(size: int, *, totalwork: int | None, max_part_bytes: int | None) -> int:
    """As many parts as keep each within its limit, at least `totalwork`, and no more than there are bytes."""
    by_size = -(-size // max_part_bytes) if max_part_bytes else 1
    return max(1, min(size, max(by_size, totalwork or 1)))


def check_splittable(name: str, head: bytes) -> None:
    """Raises SplitError for an object that is compressed or an archive, by its first bytes or by its name."""
    for packing, magic, endings in _PACKED:
        begins = re.match(magic, head, re.DOTALL) is not None
        if begins or name.lower().endswith(endings):
            sign = "first bytes" if begins else "name"
            raise SplitError(
                f"{name!r} cannot be split: by its {sign} it is compressed or packed ({packing}), and a "
                "piece of it cannot be read alone. Decompress it first, or leave 'partition' out"
            )


def record_kind(head: bytes, options: str | None) -> Kind:
    """What the records of an object are: what the options say, else what its first bytes look like."""
    text = head.removeprefix(_BYTE_ORDER_MARK).lstrip()
    if options is None or not options.strip():
        kind = _detected(text)
    elif options.startswith("separator="):
        kind = separated_by(options.removeprefix("separator="))
    else:
        known = {"fasta": FASTA, "fastq": FASTQ}.get(options.strip().lower())
        if known is None:
            raise SplitError(f"{options!r} is no option of a partition by record: give {_OPTIONS}")
        kind = known
    if kind == FASTQ:
        _four_lines(text, 0, whole=False)
    return kind


def _detected(text: bytes) -> Kind:
    if not text:
        return LINE  # nothing to cut
    kind = {b">": FASTA, b";": FASTA, b"@": FASTQ}.get(text[:1])
    if kind is None:
        raise SplitError(
            f"an object that begins with {text[:20]!r} is neither FASTA ('>') nor FASTQ ('@'): give the "
            f"partition's 'options', one of {_OPTIONS}; or split it by 'line'"
        )
    return kind


def nominal(size: int, parts: int) -> list[int]:
    """Where the cuts would be if any byte could end a part: as even as can be, the larger parts first."""
    each, more = divmod(size, parts)
    return [part * each + min(part, more) for part in range(1, parts)]


def find_cut(read: Read, size: int, position: int, kind: Kind, *, window: int = _WINDOW) -> int:
    """The first boundary at or after the position; the object's size if there is none."""
    found = _first(read, size, position, size, kind, window)
    return size if found is None else found


def cuts(
    read: Read, size: int, parts: int, kind: Kind, *, threads: int = 16, window: int = _WINDOW
) -> list[int]:
    """The parts' boundaries, from 0 to size: each the first one at or after its nominal place.

    A search ends where the next one begins, so a record that is longer than several parts is read once. Then
    some parts are empty, with equal boundaries.
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
    """The boundaries without those of empty parts; an empty object keeps its one part."""
    kept = [after for before, after in pairwise(boundaries) if after > before]
    return [boundaries[0], *(kept or boundaries[-1:])]


@dataclass(slots=True)
class _View:
    """The bytes from `base` on that were read so far; never those after `stop`."""

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
                f"{length} bytes were asked for at byte {self.end}, and {len(more)} came: the object has not "
                "the size that was said, or has changed. Submit again when nothing writes to it"
            )
        self.data += more


def _first(read: Read, size: int, position: int, limit: int, kind: Kind, window: int) -> int | None:
    """The first boundary at or after the position, or None if it is not before the limit."""
    if kind == BYTES or position <= 0 or position >= size:
        return max(0, min(position, size))
    base = position - 1 - kind.before
    view = _View(read, size if kind == FASTQ else limit, max(0, base))
    if base < 0:
        view.base, view.data = -1, b"\n"  # as if a line had ended before the first byte
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
    """How much to read each time: twice as much as before, as long as it fits into memory."""
    length = max(1, window)
    while True:
        yield length
        length = max(length, min(2 * length, _LONGEST_READ))


def _newline(view: _View, position: int, limit: int, kind: Kind, lengths: Iterator[int]) -> int | None:
    """The first place at or after the position that follows a newline of the kind; None if past the limit."""
    at = position - 1
    while (match := kind.newline.search(view.data, at - view.base)) is None:
        if view.end >= limit:
            return None
        at = max(at, view.end - 1)
        view.forget(at - kind.before)
        view.extend(max(position, view.end) + next(lengths))
    return view.base + match.end()


def _four_lines(data: bytes, offset: int, *, whole: bool) -> int | None:
    """Where the first FASTQ record begins in data that begin with a line, or None if more must be read.

    A quality may begin with '@', but two lines after it there is a sequence, which never begins with '+'.
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
        f"from byte {offset} on there are no FASTQ records of four lines (@name, sequence, +, and a quality "
        "as long as the sequence). FASTQ whose sequences span several lines cannot be split: write each "
        "sequence and each quality on one line"
    )


def _is_record(lines: Sequence[bytes]) -> bool:
    missing = [b""] * (4 - len(lines))
    name, sequence, plus, quality = (line.removesuffix(b"\r") for line in (*lines, *missing))
    return name.startswith(b"@") and plus.startswith(b"+") and len(sequence) == len(quality)
