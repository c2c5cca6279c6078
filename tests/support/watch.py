"""Distinguish AWS calls of the system under test from those of the test itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import local
from weakref import WeakSet

from botocore.client import BaseClient

_unwatched: WeakSet[BaseClient] = WeakSet()
_of_aws: WeakSet[BaseClient] = WeakSet()
_thread = local()


def unwatch(client: BaseClient) -> None:
    """Treat calls of this client as the test's own: they are neither counted nor failed."""
    _unwatched.add(client)


def is_watched(client: BaseClient) -> bool:
    return client not in _unwatched and not getattr(_thread, "observing", False)


def belongs_to_aws(client: BaseClient) -> None:
    """Treat calls of this client as made by AWS itself, such as those of a state machine."""
    _of_aws.add(client)


def is_of_aws(client: BaseClient) -> bool:
    return client in _of_aws


@contextmanager
def observing() -> Iterator[None]:
    """Treat calls of this thread in this block as the test's own."""
    before = getattr(_thread, "observing", False)
    _thread.observing = True
    try:
        yield
    finally:
        _thread.observing = before
