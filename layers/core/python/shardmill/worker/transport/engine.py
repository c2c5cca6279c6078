"""Asking for the addresses of files straight to AWS, for workers that are trusted with the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from botocore.exceptions import BotoCoreError, ClientError

from shardmill.aws.queues import SendRefused
from shardmill.engine.errors import MillError, StaleSession, WorkerNotFound
from shardmill.engine.files import presign
from shardmill.engine.files.held_attempt import HeldAttempt, get_held_attempt
from shardmill.engine.mill import Mill
from shardmill.model.transfers import Prepared, StoreAnswer, StoreRequest
from shardmill.model.worker import Lease
from shardmill.store.shards import BlockChanged
from shardmill.store.table import Throttled
from shardmill.worker.transport.base import Refused, Stale, Unreachable


class EngineDesk:
    def __init__(self, mill: Mill, worker_id: Callable[[], str]) -> None:
        self._mill = mill
        self._worker_id = worker_id

    def prepare(self, lease: Lease) -> Prepared:
        with in_transport_words():
            return presign.prepare(self._mill, self._held(lease))

    def store(self, lease: Lease, requests: Sequence[StoreRequest]) -> list[StoreAnswer]:
        with in_transport_words():
            return presign.store(self._mill, self._held(lease), requests)

    def complete(self, lease: Lease, name: str, upload_id: str, etags: Sequence[str]) -> None:
        with in_transport_words():
            presign.complete(self._mill, self._held(lease), name, upload_id, etags)

    def _held(self, lease: Lease) -> HeldAttempt:
        return get_held_attempt(self._mill, self._worker_id(), lease.task_id, lease.attempt, lease.run)


@contextmanager
def in_transport_words() -> Iterator[None]:
    try:
        yield
    except (StaleSession, WorkerNotFound) as error:
        raise Stale(error.detail) from error
    except MillError as error:
        raise Refused(error.detail, error.code) from error
    except (BotoCoreError, ClientError, BlockChanged, SendRefused, Throttled) as error:
        raise Unreachable(str(error)) from error
