"""The faults of the engine and of AWS, in the words of a transport."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import BotoCoreError, ClientError

from shardmill.aws.queues import SendRefused
from shardmill.engine.errors import MillError, StaleSession, WorkerNotFound
from shardmill.store.shards import BlockChanged
from shardmill.store.table import Throttled
from shardmill.worker.transport import Refused, Stale, Unreachable


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
