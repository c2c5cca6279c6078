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
    """Calls of this client are the test's own: neither counted nor made to fail."""
    _unwatched.add(client)


def is_watched(client: BaseClient) -> bool:
    return client not in _unwatched and not getattr(_thread, "looking_on", False)


def belongs_to_aws(client: BaseClient) -> None:
    """Calls of this client are made by AWS itself, such as those of a state machine."""
    _of_aws.add(client)


def is_of_aws(client: BaseClient) -> bool:
    return client in _of_aws


@contextmanager
def looking_on() -> Iterator[None]:
    """Calls made by this thread meanwhile are the test's own."""
    before = getattr(_thread, "looking_on", False)
    _thread.looking_on = True
    try:
        yield
    finally:
        _thread.looking_on = before
