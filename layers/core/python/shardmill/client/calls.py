"""What the parts of the Client share: requests whose answers are models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from shardmill.client.errors import BadAnswer, Invalid
from shardmill.client.http import Http
from shardmill.model.base import Answer, Time
from shardmill.model.fault import fault
from shardmill.model.job import Job

T = TypeVar("T", bound=Answer)

PAGE = 200
ACCEPTED = 202
_TIME: TypeAdapter[datetime] = TypeAdapter(Time)


class Submitted(Job):
    """The Job that was asked for; `new`: whether it was not there before."""

    new: bool = Field(exclude=True)


class Calls:
    _http: Http

    def _list(
        self, model: type[T], path: str, query: Mapping[str, Any] | None = None, page: int = PAGE
    ) -> Iterator[T]:
        cursor: str | None = None
        while True:
            items, cursor = self._page(model, path, {**(query or {}), "limit": page, "cursor": cursor})
            yield from items
            if not cursor:
                return

    def _page(self, model: type[T], path: str, query: Mapping[str, Any]) -> tuple[list[T], str | None]:
        answer = self._http.get(path, query)
        if not isinstance(answer, dict) or not isinstance(answer.get("items"), list):
            raise BadAnswer(f"the answer of GET {path} is not a list")
        return [read(model, item) for item in answer["items"]], answer.get("cursor")

    def _ask_for_run(self, path: str, document: Any, *, again: bool) -> Submitted:
        status, answer = self._http.exchange("POST", path, document=document, again=again)
        return read(Submitted, {**answer, "new": status == ACCEPTED} if isinstance(answer, dict) else answer)


def read(model: type[T], answer: Any) -> T:
    try:
        return model.model_validate(answer)
    except ValidationError as error:
        place = ".".join(str(part) for part in error.errors(include_input=False)[0]["loc"])
        raise BadAnswer(
            f"the answer is not a {model.__name__} as this version knows it"
            + (f" (see {place})" if place else "")
        ) from error


def precondition(expected: int | None) -> dict[str, str]:
    if expected is None:
        return {}
    return {"if-match": f'"v{expected}"'} if expected else {"if-none-match": "*"}


def time_text(moment: datetime | str, field: str) -> str:
    """A time as the API takes it; one without an offset is UTC."""
    try:
        return _TIME.dump_python(_TIME.validate_python(moment), mode="json")  # type: ignore[no-any-return]
    except ValidationError as error:
        faults = [fault((field,), "bad-time", error.errors()[0]["msg"])]
        raise Invalid("the request is not valid", code="invalid-request", faults=faults) from None
