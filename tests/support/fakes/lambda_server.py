"""The Lambda Invoke API on loopback, for handlers in this process."""

import json
import sys
import time
import traceback
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from types import CodeType, ModuleType
from typing import Any
from urllib.parse import unquote

from support.aws_rules.call import ProcessKilled, running_as
from support.aws_rules.lambda_concurrency import LambdaConcurrency, TooManyRequests

Handler = Callable[[Any, Any], Any]

_ASYNC_RETRY_SECONDS = 0.02  # on AWS one second at first, five minutes in the end, for six hours


class FunctionError(Exception):
    """A handler raised an exception; `payload` is the response of Lambda."""

    def __init__(self, function: str, payload: dict[str, Any]) -> None:
        trace = "".join(payload["stackTrace"])
        super().__init__(f"{function}: {payload['errorType']}: {payload['errorMessage']}\n{trace}")
        self.payload = payload


@dataclass
class Context:
    """The context object that Lambda passes to a handler."""

    function_name: str
    invoked_function_arn: str
    timeout_seconds: float
    memory_limit_in_mb: int = 512
    function_version: str = "$LATEST"
    aws_request_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    log_group_name: str = "/aws/lambda/test"
    log_stream_name: str = "test"
    started: float = field(default_factory=time.monotonic)

    def get_remaining_time_in_millis(self) -> int:
        return max(0, int((self.timeout_seconds - (time.monotonic() - self.started)) * 1000))


def load_handlers(root: Path) -> dict[str, Handler]:
    """Load the handlers of `root`/functions/*/app.py, each as a new module, as after a cold start."""
    return {path.parent.name: load_handler(path) for path in sorted(root.glob("functions/*/app.py"))}


def load_handler(path: Path) -> Handler:
    name = f"function_{path.parent.name}"
    module = sys.modules[name] = ModuleType(name)
    exec(_code(path, path.read_bytes()), vars(module))
    handler: Handler = module.handler
    return handler


@cache
def _code(path: Path, source: bytes) -> CodeType:
    return compile(source, path, "exec")


@dataclass
class Functions:
    """The deployed functions by the name of their folder; `physical` maps them to their names on AWS."""

    handlers: Mapping[str, Handler]
    timeouts: Mapping[str, float]
    physical: Mapping[str, str]
    concurrency: LambdaConcurrency = field(default_factory=LambdaConcurrency)
    invoked: list[tuple[str, Any]] = field(default_factory=list)
    """The functions invoked so far, with their events."""

    retries: Mapping[str, int] = field(default_factory=dict)
    """How often an event that fails is tried again, if not twice."""
    on_failure: Mapping[str, Callable[[dict[str, Any]], object]] = field(default_factory=dict)
    """What receives the record of an event that failed in all attempts."""

    def invoke(self, name: str, event: Any, request_id: str = "") -> Any:
        """Call a handler as Lambda does: JSON in, JSON out; raises FunctionError or TooManyRequests."""
        if name not in self.handlers:
            raise KeyError(f"no function {name!r}; there are {', '.join(sorted(self.handlers))}")
        with self.concurrency.invocation(name):
            return self._run(name, event, request_id or str(uuid.uuid4()))

    def invoke_async(self, name: str, event: Any, wait: Callable[[float], bool] = lambda _: True) -> None:
        """Run an event that Lambda accepted, with all retries; one that is throttled is tried again until
        `wait` returns True."""
        request_id, attempts = str(uuid.uuid4()), 0
        while True:
            try:
                self.invoke(name, event, request_id)
            except TooManyRequests:
                if wait(_ASYNC_RETRY_SECONDS):
                    return
                continue
            except FunctionError as fault:
                attempts += 1
                print(f"asynchronous invocation failed: {fault}", file=sys.stderr)
                if attempts <= self.retries.get(name, 2):
                    continue
                if name in self.on_failure:
                    self.on_failure[name](self._record(name, event, request_id, attempts, fault))
            return

    def _record(
        self, name: str, event: Any, request_id: str, attempts: int, fault: FunctionError
    ) -> dict[str, Any]:
        """What Lambda sends to the failure destination of a function."""
        return {
            "version": "1.0",
            "timestamp": "2026-01-01T00:00:00.000Z",
            "requestContext": {
                "requestId": request_id,
                "functionArn": f"{self._arn(name)}:$LATEST",
                "condition": "RetriesExhausted",
                "approximateInvokeCount": attempts,
            },
            "requestPayload": event,
            "responseContext": {
                "statusCode": 200,
                "executedVersion": "$LATEST",
                "functionError": "Unhandled",
            },
            "responsePayload": fault.payload,
        }

    def _arn(self, name: str) -> str:
        return f"arn:aws:lambda:us-east-1:123456789012:function:{self.physical.get(name, name)}"

    def _run(self, name: str, event: Any, request_id: str) -> Any:
        context = Context(
            self.physical.get(name, name),
            self._arn(name),
            self.timeouts.get(name, 3.0),
            aws_request_id=request_id,
        )
        received = json.loads(json.dumps(event))
        self.invoked.append((name, received))
        try:
            with running_as(name):
                return json.loads(json.dumps(self.handlers[name](received, context)))
        except Exception as fault:
            raise FunctionError(name, _error_payload(fault)) from fault
        except ProcessKilled as killed:
            payload = {
                "errorMessage": f"killed at {killed}",
                "errorType": "Runtime.ExitError",
                "stackTrace": [],
            }
            raise FunctionError(name, payload) from killed

    def named(self, function: str) -> str:
        """Return the logical name of a function by its name or ARN."""
        physical = function.rsplit(":function:", 1)[-1].split(":")[0]
        for name, known in self.physical.items():
            if physical in (known, name):
                return name
        return physical


def _error_payload(fault: Exception) -> dict[str, Any]:
    return {
        "errorMessage": str(fault),
        "errorType": type(fault).__name__,
        "stackTrace": traceback.format_exception(fault),
    }


@dataclass
class LambdaServer:
    url: str
    functions: Functions
    custom_resource_answers: list[dict[str, Any]] = field(default_factory=list)
    closing: Event = field(default_factory=Event)


@contextmanager
def lambda_server(functions: Functions) -> Iterator[LambdaServer]:
    """Serve Invoke for `functions`, and accept responses of custom resources, on a free port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Requests)
    server.daemon_threads = True
    started = LambdaServer(f"http://127.0.0.1:{server.server_port}", functions)
    server.lambda_server = started  # type: ignore[attr-defined]
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield started
    finally:
        started.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Requests(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing, to keep the output of tests clean."""

    def do_PUT(self) -> None:
        self._server.custom_resource_answers.append(json.loads(self._body()))
        self._respond(200, b"")

    def do_POST(self) -> None:
        function = unquote(self.path).split("/functions/", 1)[-1].rsplit("/invocations", 1)[0]
        functions = self._server.functions
        name = functions.named(function)
        event = json.loads(self._body() or b"{}")
        if name not in functions.handlers:
            problem = {"Type": "User", "Message": f"Function not found: {function}"}
            self._respond(
                404, json.dumps(problem).encode(), {"X-Amzn-ErrorType": "ResourceNotFoundException"}
            )
            return
        if self.headers.get("X-Amz-Invocation-Type") == "Event":
            Thread(
                target=functions.invoke_async, args=(name, event, self._server.closing.wait), daemon=True
            ).start()
            self._respond(202, b"")
            return
        try:
            self._respond(200, json.dumps(functions.invoke(name, event)).encode())
        except FunctionError as fault:
            self._respond(200, json.dumps(fault.payload).encode(), {"X-Amz-Function-Error": "Unhandled"})
        except TooManyRequests as throttle:
            problem = {"Type": "User", "message": str(throttle), "Reason": throttle.reason}
            self._respond(429, json.dumps(problem).encode(), {"X-Amzn-ErrorType": "TooManyRequestsException"})

    @property
    def _server(self) -> LambdaServer:
        server: LambdaServer = self.server.lambda_server  # type: ignore[attr-defined]
        return server

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _respond(self, status: int, body: bytes, headers: Mapping[str, str] = {}) -> None:
        self.send_response(status)
        # Step Functions names the id of a request that failed.
        always = {"Content-Type": "application/json", "X-Amzn-RequestId": str(uuid.uuid4())}
        for name, value in {**always, **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
