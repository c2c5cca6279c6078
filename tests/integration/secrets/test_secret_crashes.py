"""What is logged and answered when a request with secrets fails or its process crashes, call by call."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from itertools import count

import pytest
from botocore.exceptions import BotoCoreError

from shardmill.engine.mill import mill
from support.aws_rules.call import ProcessKilled
from support.aws_rules.faults import Faults, How
from support.fakes.lambda_server import FunctionError
from support.scenarios.job_runner import JobRunner
from support.scenarios.secret_search import rows_with

SECRET = "pr1vate-cr4sh"
STEP = {"stepName": "a", "command": {"name": "x", "environ": {"private": {"KEY": SECRET}}}}
DOCUMENT = {"steps": [STEP], "info": {"auth": True}}
Entry = Callable[[JobRunner, int], object]


def define(runner: JobRunner, number: int) -> object:
    return runner.cloud.http("PUT", f"/v1/definitions/crash-{number}", DOCUMENT).text


def submit(runner: JobRunner, number: int) -> object:
    request = {"jobName": "orders", "trigger": f"t{number}", "dataToken": SECRET}
    return runner.cloud.http("POST", "/v1/jobs", request).text


def submit_batch(runner: JobRunner, number: int) -> object:
    request = {"jobName": "orders", "trigger": f"b{number}", "dataToken": SECRET}
    return runner.cloud.http("POST", "/v1/jobs:batch", {"requests": [request]}).text


def send_event(runner: JobRunner, number: int) -> object:
    detail = {"jobName": "orders", "dataToken": SECRET}
    event = {"version": "0", "id": f"e{number}", "detail-type": "x", "source": "shop", "detail": detail}
    return runner.cloud.invoke("submit", event)


@pytest.mark.parametrize("how", ["before", "after", "crash"])
@pytest.mark.parametrize("entry", [define, submit, submit_batch, send_event], ids=lambda call: call.__name__)
def test_no_failure_of_a_call_shows_a_secret(
    runner: JobRunner,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    entry: Entry,
    how: How,
) -> None:
    runner.define(STEP, name="orders", info={"auth": True})
    seen = []
    for nth in count(1):
        with Faults() as faults:
            fault = faults.fail(how=how, nth=nth)
            try:
                seen.append(str(entry(runner, nth)))
            except (ProcessKilled, FunctionError):
                seen.append(traceback.format_exc())
        if not fault.hits:
            break
    assert nth > 2
    logged = "".join(capfd.readouterr()) + caplog.text
    assert SECRET not in logged + "".join(seen)
    assert rows_with(runner, SECRET) == []


@pytest.mark.parametrize("how", ["before", "after", "crash"])
def test_private_values_are_only_in_the_answer_that_arrives(
    runner: JobRunner, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, how: How
) -> None:
    runner.define(STEP, name="orders")
    runner.submit()
    [lease] = runner.take(1)
    body = {"workerId": runner.worker.row.id, "taskId": lease.task_id, "attempt": lease.attempt}
    body |= {"run": lease.run, "prepare": True}
    seen, complete = [], 0
    for nth in count(1):
        mill.cache_clear()
        with Faults() as faults:
            fault = faults.fail(how=how, nth=nth)
            try:
                answer = runner.cloud.http("POST", "/v1/work:urls", body)
                complete += answer.status == 200 and SECRET in answer.text
                seen.append("" if answer.status == 200 else answer.text)
            except (ProcessKilled, BotoCoreError):
                seen.append(traceback.format_exc())
        if not fault.hits:
            break
    assert nth > 2
    assert complete
    assert SECRET not in "".join(capfd.readouterr()) + caplog.text + "".join(seen)
