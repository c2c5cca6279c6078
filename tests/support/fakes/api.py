"""A fake API with scripted replies: in process for the client, on loopback for the command line."""

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from unittest.mock import patch
from urllib.parse import parse_qsl, unquote, urlsplit

import httpx
import pytest
from typer import main, testing
from typer.testing import CliRunner, Result

TOKEN = "the-token"
NOW = "2026-11-16T02:17:19.123Z"
Run = Callable[..., Result]


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Reply:
    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    error: type[httpx.TransportError] | None = None
    cut: int | None = None
    """On loopback: close the connection after this many bytes of the body."""

    @property
    def content(self) -> bytes:
        if self.body is None:
            return b""
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


class FakeApi:
    """Returns the replies to a route in order and repeats the last one; unknown routes return 404."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self._replies: dict[tuple[str, str], list[Any]] = {}

    def on(self, method: str, path: str, *replies: Any) -> None:
        """Set the replies to a route: each a `Reply`, the body of a 200, or a function of the request."""
        self._replies[method, path] = list(replies)

    def reply(self, request: Request) -> Reply:
        self.requests.append(request)
        replies = self._replies.get((request.method, request.path))
        if not replies:
            return problem(404, "not-found", f"there is no {request.path}")
        found = replies.pop(0) if len(replies) > 1 else replies[0]
        reply = found(request) if callable(found) else found
        return reply if isinstance(reply, Reply) else Reply(reply)

    @property
    def changed_jobs(self) -> list[str]:
        """The paths of requests that change or delete a job, relative to /v1/jobs."""
        changes = (each.path for each in self.requests if each.method in ("POST", "DELETE"))
        return [path.removeprefix("/v1/jobs/") for path in changes if path != "/v1/jobs:dry-run"]

    @property
    def request_lines(self) -> list[str]:
        return [f"{each.method} {each.path}" for each in self.requests]

    def transport(self) -> httpx.MockTransport:
        def handle(request: httpx.Request) -> httpx.Response:
            query = dict(parse_qsl(request.url.query.decode(), keep_blank_values=True))
            recorded = Request(
                request.method, request.url.path, query, dict(request.headers), request.content
            )
            reply = self.reply(recorded)
            if reply.error:
                raise reply.error("injected error")
            return httpx.Response(reply.status, headers=reply.headers, content=reply.content)

        return httpx.MockTransport(handle)

    @contextmanager
    def served(self) -> Iterator[str]:
        """Listen on loopback; yield the URL."""
        api = self

        class Handler(BaseHTTPRequestHandler):
            def respond(self) -> None:
                parts = urlsplit(self.path)
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                query = dict(parse_qsl(parts.query, keep_blank_values=True))
                headers = {name.lower(): value for name, value in self.headers.items()}
                reply = api.reply(Request(self.command, unquote(parts.path), query, headers, body))
                if "date" in reply.headers:
                    self.send_response_only(reply.status)
                else:
                    self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(reply.content)))
                self.end_headers()
                with suppress(ConnectionError):  # the client no longer waits for the answer
                    self.wfile.write(reply.content[: reply.cut])

            do_GET = do_POST = do_PUT = do_DELETE = respond

            def log_message(self, *args: object) -> None:
                """Keep the output of tests clean."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


@contextmanager
def command_line(api: FakeApi) -> Iterator[Run]:
    """Yield a function that runs commands against the API, the only one that they can find."""
    with api.served() as url, pytest.MonkeyPatch.context() as environment:
        environment.setenv("XDG_CACHE_HOME", "/nonexistent")
        environment.setenv("SHARDMILL_URL", url)
        environment.setenv("SHARDMILL_TOKEN", TOKEN)

        def run(*arguments: str, **more: Any) -> Result:
            result = _invoke(*arguments, **more)
            assert "Traceback" not in result.output, result.output
            return result

        yield run


def offline(*arguments: str, env: dict[str, str] | None = None, **more: Any) -> Result:
    """Run a command without an API, unless `env` has the URL of one."""
    unset = {"SHARDMILL_URL": None, "SHARDMILL_TOKEN": None}
    return _invoke(*arguments, env={**unset, **(env or {})}, **more)


_command = cache(main.get_command)


def _invoke(*arguments: str, **more: Any) -> Result:
    """Run a command; typer would build all commands again for each."""
    from shardmill.cli.app import app

    with patch.object(testing, "_get_command", _command):
        return CliRunner().invoke(app, list(arguments), **more)


def output_of(result: Result) -> str:
    """The standard output of a command that succeeded without messages."""
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def problem(status: int, code: str, detail: str = "no", **more: Any) -> Reply:
    body = {"type": f"urn:x:{code}", "title": "No", "status": status, "code": code, "detail": detail, **more}
    return Reply(body, status, {"content-type": "application/problem+json"})


def page(*items: Any, cursor: str | None = None) -> dict[str, Any]:
    return {"items": list(items), "cursor": cursor}


def job(state: str = "RUNNING", *steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "id": "0b7c2c1e-0000-4000-8000-000000000001",
        "jid": 7,
        "jobName": "report",
        "trigger": "t1",
        "state": state,
        "definitionVersion": 1,
        "submitUser": "admin",
        "createTime": NOW,
        "updateTime": NOW,
        "registered": True,
        "steps": list(steps),
        "anUnknownField": 1,
        **more,
    }


def step(
    name: str = "main", state: str = "RUNNING", total: int = 4, done: int = 0, **more: Any
) -> dict[str, Any]:
    return {
        "id": f"x_{more.get('index', 0)}",
        "stepName": name,
        "index": 0,
        "state": state,
        "totalWork": total,
        "remainWork": total - done,
        **more,
    }


def task(index: int = 0, state: str = "SUCCESS", attempt: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "id": f"x_0_{index}",
        "jobId": "x",
        "jobName": "report",
        "trigger": "t1",
        "stepName": "main",
        "rank": index,
        "sharding": {"total": 4, "index": index},
        "state": state,
        "attempt": attempt,
        "createTime": NOW,
        **more,
    }


def job_file(name: str, content: bytes, url: str, **more: Any) -> dict[str, Any]:
    """An input file of job report/t1, or, with a stepName and an index, an output of a task."""
    checksum = hashlib.sha256(content).hexdigest()
    return {"name": name, "size": len(content), "sha256": checksum, "url": url, **more}


def transition(state: str, step_name: str | None = None, **more: Any) -> dict[str, Any]:
    known = {"time": NOW, "run": 1, "stepName": step_name, "state": state, "actor": "shardmill"}
    return {**known, "reason": "", **more}


def saved(name: str = "report", **more: Any) -> dict[str, Any]:
    return {
        "jobName": name,
        "steps": [{"stepName": "main", "type": "noop", "sharding": 4}],
        "version": 3,
        "createTime": NOW,
        "updateTime": NOW,
        "submitUser": "admin",
        "updateUser": "admin",
        **more,
    }


def listed(name: str = "report", **more: Any) -> dict[str, Any]:
    """A definition as it appears in lists."""
    whole = saved(name, stepCount=2, **more)
    return {field: value for field, value in whole.items() if field != "steps"}


def group(**more: Any) -> dict[str, Any]:
    """The pull group `g`."""
    known = {"id": "g", "name": "g", "kind": "pull", "leaseSeconds": 60}
    return {**known, "createTime": NOW, "updateTime": NOW, **more}


def worker(worker_id: str = "abcdefgh", name: str = "w1", **more: Any) -> dict[str, Any]:
    known = {"id": worker_id, "name": name, "groups": ["g", "h"], "session": 1, "heartbeatSeconds": 20}
    return {**known, "createTime": NOW, "updateTime": NOW, **more}


def log(text: str, offset: int, complete: bool) -> dict[str, Any]:
    return {"text": text, "offset": offset, "complete": complete}


def schedule(**more: Any) -> dict[str, Any]:
    """The schedule `nightly` of `report`."""
    return {
        "jobName": "report",
        "scheduleId": "nightly",
        "status": 1,
        "cron": "30 4 * * *",
        "timezone": "Europe/Berlin",
        "overlap": "allow",
        "catchUp": "latest",
        "params": {},
        "version": 3,
        "nextTime": "2026-11-17T03:30:00.000Z",
        "createTime": NOW,
        "updateTime": NOW,
        "updateUser": "admin",
        "history": [],
        "anUnknownField": 1,
        **more,
    }


def firing(outcome: str = "started", time: str = NOW, **more: Any) -> dict[str, Any]:
    started = {"trigger": "t1", "jobId": "x"} if outcome == "started" else {}
    return {"time": time, "outcome": outcome, "firedTime": NOW, **started, **more}


def when(utc: str, local: str) -> dict[str, Any]:
    return {"utc": utc, "local": local}


def backfill(state: str = "RUNNING", total: int = 5, **more: Any) -> dict[str, Any]:
    return {
        "number": 2,
        "jobName": "report",
        "scheduleId": "nightly",
        "state": state,
        "total": total,
        "waiting": 0,
        "running": 0,
        "success": 0,
        "failed": 0,
        "skipped": 0,
        "parallel": 1,
        "force": False,
        "createTime": NOW,
        "updateTime": NOW,
        "submitUser": "admin",
        "notes": "",
        **more,
    }


def parent_run(name: str = "ledger", **more: Any) -> dict[str, Any]:
    """A job that report/t1 depends on; not submitted unless `preState` is given."""
    done = 1 if more.get("preState") == "SUCCESS" else 0
    known = {"jobName": "report", "trigger": "t1", "preJob": name, "preStatus": done, "strategy": "all"}
    return {**known, "updateTime": NOW, **more}
