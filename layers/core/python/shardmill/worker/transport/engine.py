"""Engine calls of workers with an IAM role: errors as transport errors, and presigned URLs of files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from botocore.exceptions import BotoCoreError, ClientError

from shardmill.engine.errors import JOB_DELETED, JobEnded, MillError, StaleSession, WorkerNotFound
from shardmill.engine.files import checkpoints, presign
from shardmill.engine.files.held_attempt import HeldAttempt, get_held_attempt
from shardmill.engine.mill import Mill
from shardmill.model.errors import Transient
from shardmill.model.transfers import Prepared, StoreAnswer, StoreRequest
from shardmill.model.worker import Lease
from shardmill.store.table import RowGone
from shardmill.worker.transport.base import Refused, Stale, Unreachable


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raise errors of the engine and of AWS as the transport errors that a worker handles."""
    try:
        yield
    except (StaleSession, WorkerNotFound) as error:
        raise Stale(error.detail) from error
    except (BotoCoreError, ClientError, Transient) as error:
        raise Unreachable(str(error)) from error
    except RowGone as error:
        raise Refused(JOB_DELETED, JobEnded.code) from error
    except MillError as error:
        raise Refused(error.detail, error.code) from error


class EngineFileUrls:
    def __init__(self, mill: Mill, worker_id: Callable[[], str]) -> None:
        self._mill = mill
        self._worker_id = worker_id

    def prepare(self, lease: Lease) -> Prepared:
        with translate_errors():
            return presign.prepare(self._mill, self._held(lease))

    def store(self, lease: Lease, requests: Sequence[StoreRequest]) -> list[StoreAnswer]:
        with translate_errors():
            return presign.store(self._mill, self._held(lease), requests)

    def complete(self, lease: Lease, name: str, upload_id: str, etags: Sequence[str]) -> None:
        with translate_errors():
            presign.complete(self._mill, self._held(lease), name, upload_id, etags)

    def load_checkpoint(self, lease: Lease) -> bytes | None:
        with translate_errors():
            return checkpoints.load(self._mill, self._held(lease))

    def save_checkpoint(self, lease: Lease, data: bytes) -> None:
        with translate_errors():
            checkpoints.save(self._mill, self._held(lease), data)

    def _held(self, lease: Lease) -> HeldAttempt:
        return get_held_attempt(self._mill, self._worker_id(), lease.task_id, lease.attempt, lease.run)
