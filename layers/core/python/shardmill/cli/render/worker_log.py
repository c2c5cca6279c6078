"""The log of a worker on standard error: text lines, or one JSON object per line."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, Literal

LogFormat = Literal["text", "json"]

_TEXT = "%(asctime)s %(levelname)s %(name)s %(message)s"
_NOISY = ("httpx", "botocore", "boto3", "urllib3")
_FUNCTIONS = "shardmill-functions"
"""The logger of code that also runs on Lambda, where it has a handler of its own (aws/observability.py)."""

_STANDARD = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}


def log_to_stderr(form: LogFormat) -> None:
    handler = _StderrHandler()
    handler.setFormatter(JsonLine() if form == "json" else TextLine(_TEXT))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger(_FUNCTIONS).handlers.clear()
    for noisy in _NOISY:
        logging.getLogger(noisy).setLevel(logging.WARNING)


class _StderrHandler(logging.Handler):
    """Writes to the current sys.stderr, which a live display replaces for a while."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except Exception:  # like the handlers of `logging`
            self.handleError(record)


class TextLine(logging.Formatter):
    """The message, followed by the fields of `extra` as key=value pairs."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  an override
        pairs = "".join(f" {name}={value}" for name, value in _fields(record).items())
        return super().formatMessage(record) + pairs


class JsonLine(logging.Formatter):
    """An object with time, level, logger, message, and the fields of `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {
            **_fields(record),
            "time": when.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    """The fields that a record was given with `extra`."""
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}
