"""Pages of lists: a limit, an opaque cursor, and the items between."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Annotated, Any, Generic, TypeVar

from aws_lambda_powertools.event_handler.openapi.params import Query
from pydantic import Field

from shardmill.engine.errors import RequestInvalid
from shardmill.model.base import Answer

DEFAULT_LIMIT = 50
T = TypeVar("T")

Limit = Annotated[int, Query(ge=1, le=1000, description="how many items at most")]
Cursor = Annotated[str | None, Query(description="the cursor of the page before", max_length=500)]


class Page(Answer, Generic[T]):
    items: list[T]
    cursor: str | None = Field(default=None, description="give it back to get the next page; null at the end")


def encode(place: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


def decode(cursor: str | None, kind: type[T]) -> T | None:
    """The place that a cursor stands for; None for the beginning."""
    if cursor is None:
        return None
    try:
        place = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except ValueError:
        place = None
    if type(place) is not kind:
        fault = {"pointer": "/cursor", "code": "bad-cursor", "message": "is not a cursor of this list"}
        raise RequestInvalid("the cursor is not one that this list gave out", faults=[fault])
    return place


def cut(items: Iterable[T], limit: int) -> tuple[list[T], bool]:
    """The first `limit` items, and whether there are more."""
    page: Iterator[T] = iter(items)
    return list(islice(page, limit)), next(page, None) is not None
