"""Run the real state machines one state at a time, when the test says so.

It supports the ASL that they use: lambda:invoke, updateItem.waitForTaskToken, inline Map, Retry, Catch, and
Choice with IsPresent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from support.aws_rules.call import ProcessKilled
from support.aws_rules.lambda_concurrency import TooManyRequests

Invoke = Callable[[dict[str, Any]], Any]
UpdateItem = Callable[..., Any]
Through = Callable[[Callable[[], Any]], Any]
_LIVE = "RUNNING"


@dataclass
class Execution:
    arn: str
    name: str
    states: dict[str, Any]
    state: str
    given: str
    data: Any
    status: str = _LIVE
    tries: int = 0
    item: int = 0
    token: str = ""
    busy: bool = False
    answer: tuple[str, str] | None = None
    """The result for its token: success, or the name of an error."""

    @property
    def runnable(self) -> bool:
        return self.status == _LIVE and not self.busy and (not self.token or self.answer is not None)


@dataclass
class SteppedStateMachines:
    """The Step Functions client that `aws.machines` needs, and its executions."""

    folder: Path
    invoke: Invoke
    update_item: UpdateItem
    table: str
    through: Through
    executions: dict[str, Execution] = field(default_factory=dict)
    _tokens: int = 0

    # what the system asks

    def start_execution(self, **asked: str) -> dict[str, Any]:
        return self.through(lambda: self._start(**asked))  # type: ignore[no-any-return]

    def describe_execution(self, *, executionArn: str) -> dict[str, Any]:
        return self.through(lambda: {"status": self._known(executionArn).status})  # type: ignore[no-any-return]

    def stop_execution(self, *, executionArn: str, cause: str) -> dict[str, Any]:
        return self.through(lambda: self._stop(executionArn))  # type: ignore[no-any-return]

    def send_task_success(self, *, taskToken: str, output: str) -> dict[str, Any]:
        return self.through(lambda: self._answer(taskToken, ("", output)))  # type: ignore[no-any-return]

    def send_task_failure(self, *, taskToken: str, error: str, cause: str) -> dict[str, Any]:
        return self.through(lambda: self._answer(taskToken, (error, cause)))  # type: ignore[no-any-return]

    def _start(self, *, stateMachineArn: str, name: str, input: str) -> dict[str, Any]:
        arn = f"{stateMachineArn.replace(':stateMachine:', ':execution:')}:{name}"
        known = self.executions.get(arn)
        if known and not (known.status == _LIVE and known.given == input):
            raise _refused("ExecutionAlreadyExists")
        if not known:
            machine = json.loads((self.folder / f"{_kind(name)}.asl.json").read_text())
            data = json.loads(input)
            self.executions[arn] = Execution(arn, name, machine["States"], machine["StartAt"], input, data)
        return {"executionArn": arn}

    def _known(self, arn: str) -> Execution:
        if arn not in self.executions:
            raise _refused("ExecutionDoesNotExist")
        return self.executions[arn]

    def _stop(self, arn: str) -> dict[str, Any]:
        execution = self._known(arn)
        if execution.status == _LIVE:
            execution.status = "ABORTED"
        return {}

    def _answer(self, token: str, answer: tuple[str, str]) -> dict[str, Any]:
        waiting = [each for each in self.executions.values() if each.token == token and each.status == _LIVE]
        if not waiting or waiting[0].answer is not None:
            raise _refused("TaskTimedOut")
        waiting[0].answer = answer
        return {}

    # what the test does

    def runnable(self) -> list[Execution]:
        return [each for each in self.executions.values() if each.runnable]

    def step(self, execution: Execution) -> None:
        """Run one state of an execution, or one item of a Map, or one attempt of these."""
        name = execution.state
        state = execution.states[name]
        execution.busy = True
        try:
            if state["Type"] == "Choice":
                execution.state = _choose(state, execution.data)
            elif state["Type"] == "Map":
                self._map(execution, state)
            elif state["Resource"].endswith("waitForTaskToken"):
                self._await(execution, state)
            else:
                answer = self._invoke(state, execution.data, {})
                self._continue_with(execution, name, state, answer)
        except (Exception, ProcessKilled) as error:
            if isinstance(error, AssertionError):
                raise
            self._failed(execution, name, state, error)
        finally:
            execution.busy = False

    def _map(self, execution: Execution, state: dict[str, Any]) -> None:
        name = execution.state
        items = _get(state["ItemsPath"], execution.data)
        if execution.item < len(items):
            context = {"Map": {"Item": {"Value": items[execution.item]}}}
            processor = state["ItemProcessor"]
            inner = processor["States"][processor["StartAt"]]
            self._invoke(inner, _fill(state["ItemSelector"], execution.data, context), context)
            if execution.status == _LIVE:
                execution.item, execution.tries = execution.item + 1, 0
        if execution.item >= len(items):
            self._continue_with(execution, name, state, None)

    def _invoke(self, state: dict[str, Any], data: Any, context: Mapping[str, Any]) -> Any:
        payload = _fill(state["Parameters"], data, context)["Payload"]
        answer = {"Payload": json.loads(json.dumps(self.invoke(json.loads(json.dumps(payload)))))}
        return _fill(state["ResultSelector"], answer, {}) if "ResultSelector" in state else answer

    def _await(self, execution: Execution, state: dict[str, Any]) -> None:
        name = execution.state
        if not execution.token:
            self._tokens += 1
            execution.token = f"token-{self._tokens}"
            wanted = _fill(state["Parameters"], execution.data, {"Task": {"Token": execution.token}})
            try:
                self.update_item(**wanted | {"TableName": self.table})
            except (Exception, ProcessKilled):
                execution.token, execution.answer = "", None
                raise
            return
        assert execution.answer is not None
        error, cause = execution.answer
        execution.token, execution.answer = "", None
        if error:
            raise _Answered(error, cause)
        self._continue_with(execution, name, state, {})

    def _continue_with(self, execution: Execution, name: str, state: dict[str, Any], answer: Any) -> None:
        if execution.status != _LIVE:
            return
        assert execution.state == name
        _put(execution, state.get("ResultPath", "$"), answer)
        execution.tries = execution.item = 0
        if state.get("End"):
            execution.status = "SUCCEEDED"
        else:
            execution.state = state["Next"]

    def _failed(self, execution: Execution, name: str, state: dict[str, Any], error: BaseException) -> None:
        if execution.status != _LIVE:
            return
        kind, cause = _in_words(error)
        retried = state
        if state["Type"] == "Map":
            processor = state["ItemProcessor"]
            retried = processor["States"][processor["StartAt"]]
        for retry in retried.get("Retry", ()):
            if _matches(retry, kind):
                if execution.tries < retry["MaxAttempts"]:
                    execution.tries += 1
                    return
                break
        execution.tries = execution.item = 0
        for catch in state.get("Catch", ()):
            if _matches(catch, kind):
                _put(execution, catch["ResultPath"], {"Error": kind, "Cause": cause})
                execution.state = catch["Next"]
                return
        execution.status = "FAILED"


class _Answered(Exception):
    """A token was returned with an error."""


def _kind(name: str) -> str:
    return "step" if "-s" in name else "job"


def _refused(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": code}}, "StepFunctions")


def _in_words(error: BaseException) -> tuple[str, str]:
    if isinstance(error, _Answered):
        return error.args
    if isinstance(error, ClientError) and error.operation_name == "UpdateItem":
        code = error.response["Error"]["Code"]
        return f"DynamoDb.{code}", str(error)
    if isinstance(error, TooManyRequests):
        return "Lambda.TooManyRequestsException", str(error)
    details = {"errorType": type(error).__name__, "errorMessage": str(error)}
    return type(error).__name__, json.dumps(details)


def _matches(rule: dict[str, Any], kind: str) -> bool:
    return not {"States.ALL", kind}.isdisjoint(rule["ErrorEquals"])


def _choose(state: dict[str, Any], data: Any) -> str:
    for rule in state["Choices"]:
        if rule["IsPresent"] is _present(rule["Variable"], data):
            return str(rule["Next"])
    return str(state["Default"])


def _present(path: str, data: Any) -> bool:
    try:
        _get(path, data)
    except (KeyError, IndexError):
        return False
    return True


def _put(execution: Execution, path: str | None, answer: Any) -> None:
    if path == "$":
        execution.data = answer
    elif path is not None:
        execution.data = execution.data | {path.removeprefix("$."): answer}


def _fill(template: Any, data: Any, context: Mapping[str, Any]) -> Any:
    if not isinstance(template, dict):
        return template
    filled = {}
    for name, value in template.items():
        if name.endswith(".$"):
            source, path = (context, value[1:]) if value.startswith("$$") else (data, value)
            filled[name[:-2]] = _get(path, source)
        else:
            filled[name] = _fill(value, data, context)
    return filled


def _get(path: str, data: Any) -> Any:
    for part in re.findall(r"\w+", path):
        data = data[int(part) if isinstance(data, list) else part]
    return data
