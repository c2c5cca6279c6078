"""The expression of a schedule: five cron fields, a macro, or one that names its dialect."""

from __future__ import annotations

from functools import lru_cache

from shardmill.model.time.calendar_times import Calendar
from shardmill.model.time.cron import Cron, cron_fault, parse_cron
from shardmill.model.time.cron_dialects import BadExpression, Interval, Once, named_dialect, parse_dialect

MAX_LENGTH = 500


def expression_fault(text: str) -> tuple[str, str] | None:
    """The code and message of the first fault of an expression; None if it is valid."""
    if len(text) > MAX_LENGTH:
        return "bad-cron", f"must have at most {MAX_LENGTH} characters"
    if not named_dialect(text):
        return cron_fault(text)
    try:
        parse_dialect(text)
    except BadExpression as error:
        return error.code, error.message
    return None


@lru_cache(maxsize=256)
def parse_expression(text: str) -> Cron | Calendar | Interval | Once:
    """Read a valid expression."""
    return parse_dialect(text) if named_dialect(text) else parse_cron(text)
