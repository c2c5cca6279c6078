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
        """The rows of `wanted` that exist; those not read within the keeping time are read together."""
        wanted = set(wanted)
        missing = [key for key in wanted if self._age(key, now) > self._keep_ms]
        if missing:
            if len(self._rows) > _MOST:
                self._rows.clear()
            found = read(missing)
            for key in missing:
                self._rows.pop(key, None)
            self._rows.update({key: (now, row) for key, row in found.items()})
        return {key: self._rows[key][1] for key in wanted if key in self._rows}

    def put(self, key: K, row: V, now: int) -> None:
        self._rows[key] = (now, row)

    def forget(self, key: K) -> None:
        self._rows.pop(key, None)

    def _age(self, key: K, now: int) -> float:
        return now - self._rows[key][0] if key in self._rows else float("inf")
