"""Correct moto where it differs from AWS in a way that would hide defects.

tests/unit/support/moto/test_repairs.py fails when one of these is no longer needed.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from threading import RLock, Thread
from typing import Any, cast
from unittest.mock import patch

import boto3
from botocore.client import BaseClient
from moto.core.botocore_stubber import BotocoreStubber
from moto.sqs.models import SQSBackend
from moto.stepfunctions.parser import utils as parser_utils
from moto.stepfunctions.parser.api import ExecutionStatus
from moto.stepfunctions.parser.asl.component.common.error_name.error_equals_decl import ErrorEqualsDecl
from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name_type import (
    StatesErrorNameType,
)
from moto.stepfunctions.parser.asl.component.common.retry import retrier_decl
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service import state_task_service_callback
from moto.stepfunctions.parser.asl.eval.callback.callback import (
    CallbackEndpoint,
    CallbackOutcomeTimedOut,
)
from moto.stepfunctions.parser.asl.utils import boto_client
from moto.stepfunctions.parser.backend.execution import BaseExecutionWorkerCommunication, Execution
from moto.stepfunctions.parser.backend.execution_worker import ExecutionWorker

from support.moto.direct_requests import request_locks
from support.moto.items import (
    items_all_or_nothing,
    keys_that_are_not_updated,
    pages_that_reach_their_limit,
)
from support.moto.queues import queues_with_limits
from support.watch import belongs_to_aws

Method = Callable[..., Any]
StateTaskServiceCallback = state_task_service_callback.StateTaskServiceCallback

_WAIT_STEP_SECONDS = 0.02
_STOP_STEP_SECONDS = 0.1
_SQS_MOVES = (
    "send_message",
    "delete_message",
    "delete_message_batch",
    "change_message_visibility",
    "change_message_visibility_batch",
)

_ClientsByRegion = dict[tuple[str, str | None], BaseClient]
_clients_of_executions: _ClientsByRegion = {}
_creation = RLock()


@contextmanager
def repaired_moto() -> Iterator[None]:
    with (
        one_request_at_a_time(),
        one_queue_move_at_a_time(),
        queues_with_limits(),
        executions_that_are_ready(),
        executions_that_can_be_stopped(),
        errors_that_nothing_catches(),
        executions_that_keep_their_clients(),
        executions_that_retry_at_once(),
        items_all_or_nothing(),
        keys_that_are_not_updated(),
        pages_that_reach_their_limit(),
    ):
        yield


@contextmanager
def one_request_at_a_time() -> Iterator[None]:
    """AWS checks a condition and writes atomically; moto's threads interleave."""
    original: Method = BotocoreStubber.process_request

    def process_request(self: BotocoreStubber, request: Any) -> Any:
        service = request.url.split("/", 3)[2].split(".")[0]
        if service == "sqs":
            return original(self, request)
        with request_locks[service]:
            return original(self, request)

    with patch.object(BotocoreStubber, "process_request", process_request):
        yield


@contextmanager
def one_queue_move_at_a_time() -> Iterator[None]:
    """Serialize the moves of messages; a waiting receive must not block the others."""
    lock = RLock()
    receive: Method = SQSBackend.receive_message

    def locked(original: Method) -> Method:
        def move(*args: Any, **kwargs: Any) -> Any:
            with lock:
                return original(*args, **kwargs)

        return move

    def receive_message(
        self: SQSBackend, queue_name: str, count: int, wait: int, visibility: int, *rest: Any
    ) -> Any:
        deadline, queues = time.monotonic() + wait, self.queues
        while True:
            with lock:
                if self.queues is not queues:  # those of the next test
                    return []
                messages = receive(self, queue_name, count, 0, visibility, *rest)
            if messages or time.monotonic() >= deadline:
                return messages
            time.sleep(_WAIT_STEP_SECONDS)

    with ExitStack() as stack:
        for name in _SQS_MOVES:
            stack.enter_context(patch.object(SQSBackend, name, locked(getattr(SQSBackend, name))))
        stack.enter_context(patch.object(SQSBackend, "receive_message", receive_message))
        yield


@contextmanager
def executions_that_are_ready() -> Iterator[None]:
    """SendTaskSuccess and StopExecution fail until the thread of each execution has started."""
    original: Method = ExecutionWorker.start

    def start(self: ExecutionWorker) -> None:
        original(self)
        while self.env is None or self.env.program_state() is None:
            time.sleep(0.001)

    with patch.object(ExecutionWorker, "start", start):
        yield


@contextmanager
def executions_that_can_be_stopped() -> Iterator[None]:
    """StopExecution does not reach a state that waits on a task token."""
    original: Method = Execution.stop
    reflect: Method = BaseExecutionWorkerCommunication._reflect_execution_status
    beating: Method = StateTaskServiceCallback._eval_wait_for_task_token

    def stop(self: Execution, stop_date: datetime, error: str | None, cause: str | None) -> None:
        if self.exec_status != ExecutionStatus.RUNNING:
            return
        original(self, stop_date=stop_date, error=error, cause=cause)
        self.exec_status = ExecutionStatus.ABORTED
        self.stop_date = datetime.now(UTC)

    def wait(
        self: StateTaskServiceCallback,
        env: Any,
        timeout_seconds: float,
        callback_endpoint: CallbackEndpoint,
        heartbeat_endpoint: Any,
    ) -> Any:
        if heartbeat_endpoint is not None:
            return beating(self, env, timeout_seconds, callback_endpoint, heartbeat_endpoint)
        deadline = time.monotonic() + timeout_seconds
        while env.is_running() and time.monotonic() < deadline:
            outcome = callback_endpoint.wait(timeout=_STOP_STEP_SECONDS)
            if outcome is not None:
                return outcome
        return CallbackOutcomeTimedOut(callback_id=callback_endpoint.callback_id)

    def keep_aborted(self: BaseExecutionWorkerCommunication) -> None:
        if self.execution.exec_status != ExecutionStatus.ABORTED:
            reflect(self)

    with (
        patch.object(Execution, "stop", stop),
        patch.object(StateTaskServiceCallback, "_eval_wait_for_task_token", wait),
        patch.object(BaseExecutionWorkerCommunication, "_reflect_execution_status", keep_aborted),
    ):
        yield


@contextmanager
def errors_that_nothing_catches() -> Iterator[None]:
    """On AWS, States.ALL does not match every error."""
    terminal = {StatesErrorNameType.StatesStatesDataLimitExceeded, StatesErrorNameType.StatesRuntime}
    original: Method = ErrorEqualsDecl._eval_body

    def match(self: ErrorEqualsDecl, env: Any) -> None:
        kind = getattr(env.stack[-1], "typ", None)
        original(self, env)
        if kind in terminal and ErrorEqualsDecl._STATE_ALL_ERROR in self.error_names:
            env.stack[-1] = False

    with patch.object(ErrorEqualsDecl, "_eval_body", match):
        yield


@contextmanager
def executions_that_keep_their_clients() -> Iterator[None]:
    """Each task creates its own client, which is slow and not thread-safe.

    Only the endpoint of Lambda is another in the next test."""
    own: _ClientsByRegion = {}

    class KeptClients:
        @staticmethod
        def client(service_name: str, **kwargs: Any) -> BaseClient:
            made = own if service_name == "lambda" else _clients_of_executions
            key = service_name, kwargs.get("region_name")
            with _creation:
                if key not in made:
                    made[key] = boto3.client(service_name, **kwargs)  # type: ignore[call-overload]
                    belongs_to_aws(made[key])
                return made[key]

    with patch.object(boto_client, "boto3", KeptClients):
        yield
    for client in own.values():
        client.close()


@contextmanager
def executions_that_retry_at_once() -> Iterator[None]:
    """A retrier sleeps for at least a second; here, for a fiftieth of its interval."""

    class ShortenedTime:
        @staticmethod
        def sleep(seconds: float) -> None:
            time.sleep(seconds / 50)

    with patch.object(retrier_decl, "time", ShortenedTime):
        yield


def join_execution_threads(timeout: float) -> list[Thread]:
    """Wait for the threads of executions, so that none outlives the mock; return those still running."""
    threads = cast(list[Thread], parser_utils.TMP_THREADS)
    deadline = time.monotonic() + timeout
    for thread in list(threads):
        if thread.ident is not None:  # the parser lists a thread before it starts it
            thread.join(max(0.0, deadline - time.monotonic()))
    threads[:] = [thread for thread in threads if thread.is_alive() or thread.ident is None]
    return list(threads)
