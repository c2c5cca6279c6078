"""Cache service models and event names, which each botocore session reads and computes again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any
from unittest.mock import patch

from botocore.hooks import EventAliaser
from botocore.loaders import JSONFileLoader, Loader

_found: dict[tuple[Any, ...], Any] = {}


@contextmanager
def service_models_read_once() -> Iterator[None]:
    """Each cloud has sessions of its own, as a cold start has; what they read is the same."""
    with ExitStack() as stack:
        for owner, name in (
            (JSONFileLoader, "load_file"),
            (Loader, "list_available_services"),
            (Loader, "list_api_versions"),
            (EventAliaser, "_alias_event_name"),
        ):
            stack.enter_context(patch.object(owner, name, _once(getattr(owner, name))))
        yield


def _once(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def remembered(self: Any, *args: Any, **named: Any) -> Any:
        place = (method.__name__, *getattr(self, "search_paths", ()), *args, *sorted(named.items()))
        if place not in _found:
            _found[place] = method(self, *args, **named)
        return _found[place]

    return remembered
