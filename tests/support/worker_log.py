"""The structured log lines of a worker, from caplog."""

import logging
from typing import Any

import pytest

_STANDARD = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}


def logged(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """The fields of each log line of the worker."""
    return [
        {name: value for name, value in vars(record).items() if name not in _STANDARD}
        for record in caplog.records
        if record.name == "shardmill.worker"
    ]


def actions(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line["action"] for line in logged(caplog)]
