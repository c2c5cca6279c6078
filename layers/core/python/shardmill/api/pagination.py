"""Pages of lists: so many items, so many bytes, and an opaque cursor to where the next page begins."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable
from typing import Annotated, Any, Generic, TypeVar

from aws_lambda_powertools.event_handler.openapi.params import Query
from pydantic import BaseModel, Field

from shardmill.api.responses import current_event
from shardmill.engine.errors import RequestInvalid
from shardmill.model.base import Answer
from shardmill.model.fault import fault

DEFAULT_LIMIT = 50
MAX_BYTES = 5_000_000  # a function answers 6 MB at most
_OF_THE_PAGE = {"limit", "cursor"}
T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

Limit = Annotated[int, Query(ge=1, le=1000, description="how many items at most; fewer if they are large")]
Cursor = Annotated[str | None, Query(description="the cursor of the page before", max_length=500)]


class Page(Answer, Generic[T]):
    items: list[T]
    cursor: str | None = Field(
        default=None,
        description="give it back to get the next page, also if this one is empty; null at the end",
    )


def page(
    found: Iterable[tuple[Any, M | None]],
    limit: int,
    *,
    looks: int | None = None,
) -> Page[M]:
    """The first of what is found, as far as a page goes.

    `found`: places of the list and what is there, None where a filter lets nothing through. `looks`: how many
    places may be looked at, so that a filter that fits seldom does not look for ever.
    """
    items: list[M] = []
    size, last = 0, None
    for looked, (place, item) in enumerate(found):
        size += _size(item) if item is not None else 0
        if len(items) == limit or looked == looks or (items and size > MAX_BYTES):
            return Page(items=items, cursor=_encode(last, _list_of()))
        if item is not None:
            items.append(item)
        last = place
    return Page(items=items)


def place_of(cursor: str | None, kind: type[T]) -> T | None:
    """The place after which a page begins; None for the beginning."""
    if cursor is None:
        return None
    try:
        place, of = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, TypeError):
        place, of = None, None
    if type(place) is not kind or of != _list_of():
        wrong = fault(("cursor",), "bad-cursor", "is not a cursor of this list with these filters")
        raise RequestInvalid("the cursor is not one that this list gave out", faults=[wrong.model_dump()])
    return place


def _encode(place: Any, of: int) -> str:
    return base64.urlsafe_b64encode(json.dumps([place, of]).encode()).decode().rstrip("=")


def _size(item: BaseModel) -> int:
    """Bytes of an item in a function's answer, in which the JSON of the body is a text once more."""
    return len(json.dumps(item.model_dump_json(ensure_ascii=True)))


def _list_of() -> int:
    """Tells lists, and the same list under other filters, apart."""
    event = current_event()
    filters = {
        name: value for name, value in event.query_string_parameters.items() if name not in _OF_THE_PAGE
    }
    return zlib.crc32(json.dumps([event.path, filters], sort_keys=True).encode())
