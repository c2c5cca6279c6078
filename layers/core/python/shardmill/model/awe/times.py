"""Times and durations as the AWE protocol writes them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

ZERO_TIME = "0001-01-01T00:00:00Z"
"""Go's zero time, for an event that has not happened; clients expect a time in every time field."""


def awe_time(milliseconds: int | None) -> str:
    """A time in milliseconds as `2014-02-09T15:43:40.574Z`."""
    if not milliseconds:
        return ZERO_TIME
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def go_duration(milliseconds: int) -> str:
    """A duration as `50h16m0s`."""
    seconds = max(0, milliseconds) // 1000
    hours, minutes = divmod(seconds // 60, 60)
    if hours:
        return f"{hours}h{minutes}m{seconds % 60}s"
    return f"{minutes}m{seconds % 60}s" if minutes else f"{seconds}s"


def serve_time(seconds: int) -> str:
    """How long a client has served, as `50h16m`."""
    return f"{seconds // 3600}h{seconds // 60 % 60}m"


def parse_span(text: str) -> int | None:
    """A time span such as `90M`, `12H` or `3D` in seconds; None if it is not one."""
    found = re.fullmatch(r"([1-9][0-9]{0,5})([MHD])", text.strip().upper())
    return int(found[1]) * {"M": 60, "H": 3_600, "D": 86_400}[found[2]] if found else None
