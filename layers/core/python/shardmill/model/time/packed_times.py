"""Times as compact text: the differences between them, compressed.

Times of a schedule repeat after a day, a week or a month, so that 10,000 of them take a few hundred bytes.
Even times without any pattern take less than 60 KB.
"""

from __future__ import annotations

import json
import zlib
from base64 import b85decode, b85encode
from collections.abc import Sequence
from itertools import accumulate, pairwise

_FEW = 16


def pack(times: Sequence[int]) -> str | list[int]:
    """Encode ascending times; a few of them stay a list."""
    if len(times) <= _FEW:
        return list(times)
    steps = [times[0], *(after - before for before, after in pairwise(times))]
    return b85encode(zlib.compress(json.dumps(steps, separators=(",", ":")).encode(), 9)).decode()


def unpack(packed: str | Sequence[int]) -> list[int]:
    """Decode the result of `pack`, or the list that earlier releases stored."""
    if not isinstance(packed, str):
        return list(packed)
    return list(accumulate(json.loads(zlib.decompress(b85decode(packed)))))
