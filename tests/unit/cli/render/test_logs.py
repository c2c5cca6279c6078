"""Log lines of a worker, as text and as JSON."""

import json
import logging
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmill.cli.render.logs import JsonLine, TextLine


def said(*arguments: Any, name: str = "shardmill.worker", **more: Any) -> dict[str, Any]:
    record = logging.LogRecord(name, logging.WARNING, "x.py", 1, arguments[0], arguments[1:], None, **more)
    found: dict[str, Any] = json.loads(JsonLine().format(record))
    assert found.pop("time").endswith("Z")
    assert found.pop("level") == "warning"
    return found


def test_json_line_contains_the_pairs_of_the_message() -> None:
    assert said("ended task=%s attempt=%d reason=%s", "x_0_1", 2, "exit code=3 \n'é") == {
        "event": "ended",
        "task": "x_0_1",
        "attempt": 2,
        "reason": "exit code=3 \n'é",
    }
    assert said("%s-failing error=%s (trying again)", "lease", ValueError("no")) == {
        "event": "lease-failing",
        "error": "no",
        "note": "(trying again)",
    }
    assert said("stopping grace=%gs", 10.0) == {"event": "stopping", "grace": "10s"}
    assert said("suspended: until `%s`", "x y") == {"event": "suspended", "note": "until `x y`"}
    assert said("done share=%d%% at=here", 7) == {"event": "done", "share": "7%", "at": "here"}
    assert said("offline") == {"event": "offline"}
    assert said("a 100%% %s", "b", name="botocore.x") == {
        "event": "log",
        "logger": "botocore.x",
        "message": "a 100% b",
    }


def test_engine_message_keeps_its_extra_fields() -> None:
    record = logging.LogRecord("shardmill-functions", logging.WARNING, "x.py", 1, "it is late", (), None)
    record.__dict__.update(action="start", jobId="x")
    found = json.loads(JsonLine().format(record))
    assert {name: found[name] for name in ("event", "message", "action", "jobId")} == {
        "event": "log",
        "message": "it is late",
        "action": "start",
        "jobId": "x",
    }
    text = TextLine("%(levelname)s %(message)s").format(record)
    assert text == "WARNING it is late action=start jobId=x"


@pytest.mark.parametrize("form", ["text", "json"])
def test_engine_logs_once_in_the_worker_format(form: str) -> None:
    code = (
        "from shardmill.aws.observability import logger\n"
        "from shardmill.cli.render.logs import log_to_stderr\n"
        f"log_to_stderr({form!r})\n"
        "logger.warning('it is late', extra={'action': 'start'})\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=True
    )
    [line] = found.stderr.splitlines()
    assert found.stdout == ""
    if form == "json":
        assert json.loads(line)["message"] == "it is late"
    else:
        assert line.endswith(" WARNING shardmill-functions it is late action=start")


@given(st.text(max_size=30), st.integers(), st.text(max_size=30))
def test_any_value_round_trips_through_a_json_line(text: str, number: int, last: str) -> None:
    assert said("x a=%s b=%d c=%s", text, number, last) == {"event": "x", "a": text, "b": number, "c": last}
