"""Log lines of a worker, as text and as JSON."""

import json
import logging
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmill.cli.render.worker_log import JsonLine, TextLine


def a_record(
    message: str, *arguments: Any, name: str = "shardmill.worker", **fields: Any
) -> logging.LogRecord:
    record = logging.LogRecord(name, logging.WARNING, "x.py", 1, message, arguments, None)
    record.__dict__.update(fields)
    return record


def json_line(record: logging.LogRecord) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(JsonLine().format(record))
    assert found.pop("time").endswith("Z")
    assert found.pop("level") == "warning"
    return found


def test_json_line_contains_the_message_and_the_fields_of_the_record() -> None:
    fields = {"action": "task-failed", "task": "x_0_1", "attempt": 2, "reason": "exit code=3 \n'é"}
    assert json_line(a_record("a task did not succeed", **fields)) == {
        "logger": "shardmill.worker",
        "message": "a task did not succeed",
        **fields,
    }
    assert json_line(a_record("suspended: until `%s`", "x y", action="suspended")) == {
        "logger": "shardmill.worker",
        "message": "suspended: until `x y`",
        "action": "suspended",
    }
    assert json_line(a_record("stopping", action="stopping", graceSeconds=10.0))["graceSeconds"] == 10.0
    assert json_line(a_record("offline", action="offline"))["action"] == "offline"
    assert json_line(a_record("failing", action="call-failing", error=ValueError("no")))["error"] == "no"
    assert json_line(a_record("a 100%% %s", "b", name="botocore.x")) == {
        "logger": "botocore.x",
        "message": "a 100% b",
    }


def test_engine_message_keeps_its_extra_fields() -> None:
    record = a_record("it is late", name="shardmill-functions", action="start", jobId="x")
    assert json_line(record) == {
        "logger": "shardmill-functions",
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
        "from shardmill.cli.render.worker_log import log_to_stderr\n"
        f"log_to_stderr({form!r})\n"
        "logger.warning('it is late', extra={'action': 'start'})\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=True
    )
    [line] = found.stderr.splitlines()
    assert found.stdout == ""
    if form == "json":
        assert json.loads(line)["message"] == "it is late"
    else:
        assert line.endswith(" WARNING shardmill-functions it is late action=start")


@given(st.text(max_size=30), st.integers(), st.text(max_size=30))
def test_any_value_round_trips_through_a_json_line(text: str, number: int, last: str) -> None:
    found = json_line(a_record("x", a=text, b=number, c=last))
    assert (found["a"], found["b"], found["c"]) == (text, number, last)
