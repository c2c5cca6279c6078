"""What a worker says on standard error: lines for people, or a JSON object each."""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import UTC, datetime
from typing import Any, Literal

LogFormat = Literal["text", "json"]

_TEXT = "%(asctime)s %(levelname)s %(name)s %(message)s"
_NOISY = ("httpx", "botocore", "boto3", "urllib3")
_FUNCTIONS = "shardmill-functions"
"""The logger of what also runs on Lambda, for which it brings a handler of its own (aws/observe.py)."""

_USUAL = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}
_PLACE = re.compile(r"%(?:%|[-#0 +]*\d*(?:\.\d+)?[a-zA-Z])")
_PAIR = re.compile(r"(\w+)=(.*)", re.DOTALL)


def log_to_stderr(form: LogFormat) -> None:
    handler = _ToStderr()
    handler.setFormatter(JsonLine() if form == "json" else TextLine(_TEXT))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger(_FUNCTIONS).handlers.clear()
    for noisy in _NOISY:
        logging.getLogger(noisy).setLevel(logging.WARNING)


class _ToStderr(logging.Handler):
    """Where standard error is now: what is shown live on a terminal takes its place for a while."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except Exception:  # as every handler of `logging` does it
            self.handleError(record)


class TextLine(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  so it is called
        extra = "".join(f" {name}={value}" for name, value in _extra(record).items())
        return super().formatMessage(record) + extra


class JsonLine(logging.Formatter):
    """Our messages are `event key=value …`: each becomes an object with these keys, its numbers numbers."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        said = {"time": when.replace("+00:00", "Z"), "level": record.levelname.lower()}
        if record.name.partition(".")[0] == "shardmill":
            said |= _parts(record)
        else:
            more = {"event": "log", "logger": record.name, "message": record.getMessage()}
            said = {**_extra(record), **said, **more}
        if record.exc_info:
            said["traceback"] = self.formatException(record.exc_info)
        return json.dumps(said, ensure_ascii=False, default=str)


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    """What a record was given with `extra`."""
    return {name: value for name, value in vars(record).items() if name not in _USUAL}


def _parts(record: logging.LogRecord) -> dict[str, Any]:
    """By the template, so that a value may have spaces and equal signs; what is no pair is the `note`."""
    arguments = list(record.args) if isinstance(record.args, tuple) else []
    words: list[str] = []
    pairs: dict[str, Any] = {}
    for word in str(record.msg).split():
        places = sum(found != "%%" for found in _PLACE.findall(word))
        own, arguments = tuple(arguments[:places]), arguments[places:]
        pair = _PAIR.fullmatch(word)
        if not pair:
            words.append(word % own if record.args else word)
        elif len(own) == 1 and _PLACE.fullmatch(pair[2]) and isinstance(own[0], (int, float)):
            pairs[pair[1]] = own[0]
        else:
            pairs[pair[1]] = pair[2] % own if record.args else pair[2]
    event, *note = words or [record.getMessage()]
    said: dict[str, Any] = {"event": event.rstrip(":"), **pairs}
    return {**said, "note": " ".join(note)} if note else said
