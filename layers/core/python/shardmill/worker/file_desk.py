"""Asking for the addresses of files straight to AWS, for workers that are trusted with the table."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shardmill.engine import files
from shardmill.engine.holding import Holding, holding
from shardmill.engine.mill import Mill
from shardmill.model.transfers import Prepared, StoreAnswer, StoreRequest
from shardmill.model.worker import Lease
from shardmill.worker.faults import in_transport_words


class EngineDesk:
    def __init__(self, mill: Mill, worker_id: Callable[[], str]) -> None:
        self._mill = mill
        self._worker_id = worker_id

    def prepare(self, lease: Lease) -> Prepared:
        with in_transport_words():
            return files.prepare(self._mill, self._held(lease))

    def store(self, lease: Lease, requests: Sequence[StoreRequest]) -> list[StoreAnswer]:
        with in_transport_words():
            return files.store(self._mill, self._held(lease), requests)

    def complete(self, lease: Lease, name: str, upload_id: str, etags: Sequence[str]) -> None:
        with in_transport_words():
            files.complete(self._mill, self._held(lease), name, upload_id, etags)

    def _held(self, lease: Lease) -> Holding:
        return holding(self._mill, self._worker_id(), lease.task_id, lease.attempt, lease.run)
