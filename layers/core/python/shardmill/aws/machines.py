"""Step Functions: start and stop executions, and return task tokens."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

if TYPE_CHECKING:
    from types_boto3_stepfunctions import SFNClient

_RETURNED_TOKEN = {"TaskTimedOut", "InvalidToken", "TaskDoesNotExist"}
_NOT_RUNNING = {"ExecutionDoesNotExist", "ValidationException"}  # the latter if it has ended
_NAME = re.compile(r"^(?P<job>[0-9a-f-]{36})-r(?P<run>\d+)(-s(?P<step>\d+))?$")


def parse_execution_name(name: str) -> tuple[str, int, int | None] | None:
    """Return the Job, run and, for a step's execution, step index in an execution's name."""
    match = _NAME.match(name)
    if not match:
        return None
    return match["job"], int(match["run"]), int(match["step"]) if match["step"] else None


class Machines:
    def __init__(self, client: SFNClient, job_machine: str, step_machine: str) -> None:
        self._client = client
        self._job_machine = job_machine
        self._step_machine = step_machine

    def start_job(self, job_id: str, run: int) -> None:
        self._start(self._job_machine, f"{job_id}-r{run}", {"jobId": job_id, "run": run})

    def start_step(
        self,
        job_id: str,
        run: int,
        index: int,
        keys: dict[str, str],
        opened: Mapping[str, Any] | None = None,
    ) -> None:
        """Start a step's execution; `keys` is the key of the row that will hold its token.

        `opened`: the result of its first state, which it then skips.
        """
        given = {"jobId": job_id, "run": run, "step": index, **keys}
        if opened is not None:
            given["opened"] = {"value": opened}
        self._start(self._step_machine, f"{job_id}-r{run}-s{index}", given)

    def _start(self, machine: str, name: str, given: dict[str, object]) -> None:
        """Idempotent, because the name of an execution is unique."""
        try:
            self._client.start_execution(
                stateMachineArn=machine, name=name, input=json.dumps(given, separators=(",", ":"))
            )
        except ClientError as error:
            if error.response["Error"]["Code"] != "ExecutionAlreadyExists":
                raise

    def status(self, job_id: str, run: int, index: int | None = None) -> str | None:
        """The status of a Job's or a step's execution, such as RUNNING; None if it was never started."""
        try:
            return self._client.describe_execution(executionArn=self._arn(job_id, run, index))["status"]
        except ClientError as error:
            if error.response["Error"]["Code"] != "ExecutionDoesNotExist":
                raise
            return None

    def abort(self, job_id: str, run: int, index: int | None = None) -> None:
        """Stop an execution; no-op if it has ended or was never started."""
        self._stop(self._arn(job_id, run, index), "the Job was ended")

    def _stop(self, arn: str, cause: str) -> None:
        try:
            self._client.stop_execution(executionArn=arn, cause=cause)
        except ClientError as error:
            if error.response["Error"]["Code"] not in _NOT_RUNNING:
                raise

    def stop_running(self, most: int) -> int:
        """Stop up to `most` running executions of each state machine; return how many."""
        stopped = 0
        for machine in (self._job_machine, self._step_machine):
            found = self._client.list_executions(
                stateMachineArn=machine, statusFilter="RUNNING", maxResults=most
            )
            for execution in found["executions"]:
                self._stop(execution["executionArn"], "the stack is being deleted")
            stopped += len(found["executions"])
        return stopped

    def _arn(self, job_id: str, run: int, index: int | None) -> str:
        machine, name = self._job_machine, f"{job_id}-r{run}"
        if index is not None:
            machine, name = self._step_machine, f"{name}-s{index}"
        return f"{machine.replace(':stateMachine:', ':execution:')}:{name}"

    def return_token(self, token: str) -> None:
        """Resume the execution that waits for the token; no-op if the token was returned."""
        with _ignore_returned_token():
            self._client.send_task_success(taskToken=token, output="{}")

    def stop(self, token: str) -> None:
        """Make the execution that waits for the token stop its step; no-op if the token was returned."""
        with _ignore_returned_token():
            self._client.send_task_failure(taskToken=token, error="Stop", cause="the step must stop")


@contextmanager
def _ignore_returned_token() -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        if error.response["Error"]["Code"] not in _RETURNED_TOKEN:
            raise
