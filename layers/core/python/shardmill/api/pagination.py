"""Pagination of lists: limits of items and bytes, and an opaque cursor to the next page."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Generic, TypeVar

from aws_lambda_powertools.event_handler.openapi.params import Query
from pydantic import BaseModel, Field

from shardmill.api.responses import MAX_RESPONSE_BYTES, current_event, response_size
from shardmill.engine.errors import RequestInvalid
from shardmill.model.base import Answer
from shardmill.model.fault import fault

DEFAULT_LIMIT = 50
WHOLE_LIST = 1000
"""The default of lists that had no pages in earlier releases; nearly all of them fit into one page."""
_PAGE_PARAMETERS = {"limit", "count", "cursor"}
T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

Limit = Annotated[
    int, Query(ge=1, le=1000, description="maximum number of items; a page has fewer if they are large")
]
Cursor = Annotated[str | None, Query(description="the cursor of the previous page", max_length=500)]


class Page(Answer, Generic[T]):
    items: list[T]
    cursor: str | None = Field(
        default=None,
        description="pass it to get the next page, even if this page is empty; null on the last page",
    )


def page(
    found: Iterable[tuple[Any, M | None]],
    limit: int,
    *,
    max_scanned: int | None = None,
    look_ahead: bool = False,
) -> Page[M]:
    """Return a page of `found`: pairs of a position in the list and its item, None if it is filtered out.

    `max_scanned` limits the positions that one request reads if few items pass the filter. `look_ahead`: a
    full page has a cursor only if another item passes, so that it does not reveal hidden rows.
    """
    items: list[M] = []
    size, last = 0, None
    for scanned, (place, item) in enumerate(found):
        size += response_size(item) if item is not None else 0
        full = len(items) == limit or bool(items and size > MAX_RESPONSE_BYTES)
        if scanned == max_scanned or (full and (item is not None or not look_ahead)):
            return Page(items=items, cursor=_encode(last, _list_checksum()))
        if item is not None:
            items.append(item)
        if not full:
            last = place
    return Page(items=items)


def page_of_list(found: Sequence[M], limit: int, cursor: str | None) -> Page[M]:
    """Return a page of a list that is read completely and grows only at its end."""
    start = max((decode_cursor(cursor, int) or 0), 0)
    return page(((place, found[place - 1]) for place in range(start + 1, len(found) + 1)), limit)


def decode_cursor(cursor: str | None, kind: type[T]) -> T | None:
    """Decode the position after which a page begins; None for the first page."""
    if cursor is None:
        return None
    try:
        place, of = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, TypeError):
        place, of = None, None
    if type(place) is not kind or of != _list_checksum():
        wrong = fault(("cursor",), "bad-cursor", "is not a cursor of this list with these filters")
        raise RequestInvalid("the cursor does not belong to this list", faults=[wrong.model_dump()])
    return place


def _encode(place: Any, of: int) -> str:
    return base64.urlsafe_b64encode(json.dumps([place, of]).encode()).decode().rstrip("=")


def _list_checksum() -> int:
    """A checksum of the path and the filters, which a cursor must match."""
    event = current_event()
    filters = {
        name: value for name, value in event.query_string_parameters.items() if name not in _PAGE_PARAMETERS
    }
    return zlib.crc32(json.dumps([event.path, filters], sort_keys=True).encode())
