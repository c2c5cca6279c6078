"""Rows read a moment ago, for callers that can bear a short delay in learning of a change."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
_MOST = 2_000


class Recent(Generic[K, V]):
    def __init__(self, keep_ms: int) -> None:
        self._keep_ms = keep_ms
        self._rows: dict[K, tuple[int, V]] = {}

    def get(self, wanted: Iterable[K], read: Callable[[list[K]], Mapping[K, V]], now: int) -> dict[K, V]:
        """The rows of `wanted` that exist; those not read within the keeping time are read together.

        Threads may share it: each answers from what it looked up itself.
        """
        known: dict[K, V] = {}
        missing: list[K] = []
        for key in set(wanted):
            kept = self._rows.get(key)
            if kept and now - kept[0] <= self._keep_ms:
                known[key] = kept[1]
            else:
                missing.append(key)
        if missing:
            found = dict(read(missing))
            if len(self._rows) > _MOST:
                self._rows.clear()
            self._rows.update({key: (now, row) for key, row in found.items()})
            known |= found
        return known

    def forget(self, key: K) -> None:
        self._rows.pop(key, None)
