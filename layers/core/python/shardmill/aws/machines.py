"""Step Functions: start and stop executions, and return task tokens."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from shardmill.aws.observability import logger

if TYPE_CHECKING:
    from types_boto3_stepfunctions import SFNClient

_RETURNED_TOKEN = {"TaskTimedOut", "InvalidToken", "TaskDoesNotExist"}
_NOT_RUNNING = {"ExecutionDoesNotExist", "ValidationException"}  # the latter if it has ended
_NO_ALIAS = {"StateMachineDoesNotExist", "ResourceNotFound"}
_NAME = re.compile(r"^(?P<job>[0-9a-f-]{36})-r(?P<run>\d+)(-s(?P<step>\d+))?$")


def parse_execution_name(name: str) -> tuple[str, int, int | None] | None:
    """Return the Job, run and, for a step's execution, step index in an execution's name."""
    match = _NAME.match(name)
    if not match:
        return None
    return match["job"], int(match["run"]), int(match["step"]) if match["step"] else None


class Machines:
    """The state machines, by their ARNs. Executions are started through the alias, if there is one.

    Everything else uses the ARNs without it: names of executions are unique for a state machine, whichever
    version they use, and executions that an earlier release started have no alias.
    """

    def __init__(self, client: SFNClient, job_machine: str, step_machine: str, alias: str = "") -> None:
        self._client = client
        self._job_machine = job_machine
        self._step_machine = step_machine
        self._alias = alias

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
        text = json.dumps(given, separators=(",", ":"))
        if not (self._alias and self._begin(f"{machine}:{self._alias}", name, text, _NO_ALIAS)):
            self._begin(machine, name, text)

    def _begin(self, machine: str, name: str, given: str, absent: Container[str] = ()) -> bool:
        """Start an execution. False if AWS answers that `machine` does not exist.

        The update of a stack that introduces the alias creates it after it has updated functions.
        """
        try:
            self._client.start_execution(stateMachineArn=machine, name=name, input=given)
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code in absent:
                extra = {"action": "machine-alias-missing", "stateMachine": machine}
                logger.warning(
                    "the alias of a state machine does not exist; its newest definition is used", extra=extra
                )
                return False
            if code != "ExecutionAlreadyExists":
                raise
        return True

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
        """Stop up to `most` running executions of each state machine; return how many were found.

        The list is eventually consistent. The next call stops executions for which Step Functions throttled
        this one.
        """
        found = 0
        for machine in (self._job_machine, self._step_machine):
            running = self._running(machine, most)
            found += len(running)
            try:
                for arn in running:
                    self._stop(arn, "the stack is being deleted")
            except ClientError as error:
                if error.response["Error"]["Code"] != "ThrottlingException":
                    raise
        return found

    def _running(self, machine: str, most: int) -> list[str]:
        try:
            found = self._client.list_executions(
                stateMachineArn=machine, statusFilter="RUNNING", maxResults=most
            )
        except ClientError as error:
            if error.response["Error"]["Code"] != "StateMachineDoesNotExist":
                raise
            return []
        return [execution["executionArn"] for execution in found["executions"]]

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
