"""Times as milliseconds since 1970, which rows store, and as datetime and text.

Closing a step needs these without the models of model/base, whose import takes long.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def from_ms(milliseconds: int) -> datetime:
    """Convert milliseconds since 1970 to a time."""
    return _EPOCH + timedelta(milliseconds=milliseconds)


def optional_from_ms(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else from_ms(milliseconds)


def to_ms(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def utc_text(milliseconds: int) -> str:
    """The time to the second, such as 2020-01-23T04:14:44Z."""
    return from_ms(milliseconds).strftime("%Y-%m-%dT%H:%M:%SZ")
