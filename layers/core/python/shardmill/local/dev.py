"""`shardmill dev`: start, supervise and stop the laptop cloud."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

from shardmill.client.dev_session import Session
from shardmill.engine.authorize import hash_of
from shardmill.local import emulator_quirks
from shardmill.local.cloud import Cloud, bind
from shardmill.local.errors import CloudFailed, Refused
from shardmill.local.state_folder import StateFolder
from shardmill.local.workers import Workers

READY_SECONDS = 60.0
DEFAULT_PORTS = range(7700, 7800)
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
GROUPS = {"default", "lambda"}
PARAMETERS = {"NotifyLoopback": "true", "RunnerConcurrency": "5"}  # each Lambda worker is a process
ROOT = Path(__file__).resolve().parents[5]


class StopRequested(BaseException):
    """The process received a signal to stop."""


@dataclass(frozen=True, slots=True)
class Laptop:
    """A running laptop cloud."""

    session: Session
    cloud: Cloud
    workers: Workers

    def supervise(self) -> None:
        """Restart workers that exited; raise CloudFailed if the emulator exited. Call it repeatedly."""
        self.cloud.check()
        self.workers.supervise()


def run_dev(port: int | None, state: Path | None, workers: int, as_json: bool, root: Path = ROOT) -> int:
    """Run until Ctrl-C, SIGTERM or SIGHUP. Return the exit code: 0 stopped, 1 failed, 2 could not start."""
    try:
        with stop_on_signals(), laptop(port, state, workers, root) as ready:
            print_session(ready.session, as_json)
            while True:
                ready.supervise()
                time.sleep(0.2)
    except StopRequested:
        return 0
    except Refused as refusal:
        report(str(refusal))
        return 2
    except CloudFailed as failure:
        report(str(failure))
        return 1


@contextlib.contextmanager
def stop_on_signals() -> Iterator[None]:
    """Raise StopRequested on the first SIGINT, SIGTERM or SIGHUP and ignore later ones.

    A SIGHUP that is already ignored stays ignored, as under nohup."""
    handled = [
        number
        for number in STOPPING
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN
    ]

    def stop(*_: Any) -> NoReturn:
        for number in handled:
            signal.signal(number, signal.SIG_IGN)
        raise StopRequested

    before = {number: signal.signal(number, stop) for number in handled}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def laptop(
    port: int | None, state: Path | None, workers: int, root: Path = ROOT, *, publish: bool = True
) -> Iterator[Laptop]:
    """Run a laptop cloud with this repository deployed and workers; stop all of it at the end.

    With `publish`, the command line and the SDK find it without options."""
    with contextlib.ExitStack() as cleanup:
        listener = cleanup.enter_context(bind(port)) if port is not None else None
        folder = StateFolder.at(state)
        lock = cleanup.enter_context(folder.locked())
        listener = listener or cleanup.enter_context(default_listener(folder))
        report(f"starting the laptop cloud in {folder.path}, port {listener.getsockname()[1]}")
        cloud = Cloud.start(folder, listener, lock)
        cleanup.callback(cloud.stop, report)
        session = _deployed(cloud, folder, root)
        pull_workers = Workers(session, folder, report)
        cleanup.callback(pull_workers.stop)
        pull_workers.start(workers)
        _wait_until_ready(session, cloud)
        session = replace(session, worker_token=_worker_token(session, folder))
        _resume(cloud)
        if publish:
            cleanup.callback(session.withdraw)
            session.publish()
        yield Laptop(session, cloud, pull_workers)


def default_listener(folder: StateFolder) -> socket.socket:
    """Listen on the port that this state folder used last, else on the first free default port."""
    last = folder.deployment().get("port")
    for port in ([last] if last else []) + list(DEFAULT_PORTS):
        with contextlib.suppress(Refused):
            return bind(port)
    return bind(0)


def _deployed(cloud: Cloud, folder: StateFolder, root: Path) -> Session:
    """Deploy the repository if it changed since the last time."""
    from shardmill.local import deploy  # slow to import: do it while the emulator starts

    token = folder.admin_token()
    token_hash = hash_of(token)
    package = deploy.Package(root)
    version = f"{package.digest}-{token_hash[:16]}"
    cloud.wait_until_up()
    deployer = deploy.Deployer(deploy.Endpoint(cloud.endpoint))
    outputs = deployer.outputs() if folder.deployment().get("version") == version else None
    if outputs is None:
        report("deploying template.yaml")
        outputs = deployer.deploy(package, {"AdminTokenHash": token_hash, **PARAMETERS})
        cloud.save()
    folder.save_deployment(version=version, port=urlsplit(cloud.endpoint).port, api=outputs["ApiId"])
    return Session(
        url=cloud.endpoint,
        token=token,
        aws_endpoint=cloud.endpoint,
        pid=os.getpid(),
        state=str(folder.path),
        outputs=outputs,
    )


def _resume(cloud: Cloud) -> None:
    """Resume the executions that the last stop interrupted. The API answers already, as this can take
    long."""
    from shardmill.local import deploy

    cloud.resume()
    emulator_quirks.tick_now(deploy.Endpoint(cloud.endpoint).client("lambda"), deploy.STACK)


def _wait_until_ready(session: Session, cloud: Cloud) -> None:
    """Wait until the API answers and the built-in worker groups exist."""
    deadline = time.monotonic() + READY_SECONDS
    status, answer = 0, b""
    while time.monotonic() < deadline:
        cloud.check()
        status, answer = _get(session, "/v1/health")
        if status == 200:
            status, answer = _get(session, "/v1/groups")
            if status == 200 and {group["name"] for group in json.loads(answer)["items"]} >= GROUPS:
                return
        time.sleep(0.05)
    raise CloudFailed(
        f"the API was not ready within {READY_SECONDS:.0f} s; the last response: {status} {answer[:500]!r}; "
        f"see the log {cloud.folder.log('cloud')}"
    )


def _worker_token(session: Session, folder: StateFolder) -> str:
    """The token that `shardmill worker` uses on this machine, created again if it is no longer valid."""
    token = folder.worker_token()
    if token and _get(session, "/v1/groups", token)[0] == http.HTTPStatus.FORBIDDEN:
        return token  # the token is valid, but has no scope to list groups
    request = json.dumps({"name": "dev-worker", "scopes": ["worker"]})
    status, answer = _request(session, "POST", "/v1/tokens", session.token, request)
    if status != http.HTTPStatus.CREATED:
        raise CloudFailed(f"cannot create the token of the workers: {status} {answer[:500]!r}")
    token = str(json.loads(answer)["token"])
    folder.save_worker_token(token)
    return token


def _get(session: Session, path: str, token: str = "") -> tuple[int, bytes]:
    return _request(session, "GET", path, token or session.token)


def _request(
    session: Session, method: str, path: str, token: str, body: str | None = None
) -> tuple[int, bytes]:
    url = urlsplit(session.url)
    connection = http.client.HTTPConnection(url.netloc, timeout=30)
    headers = {"Authorization": f"Bearer {token}"} | ({"Content-Type": "application/json"} if body else {})
    try:
        connection.request(method, url.path + path, body, headers)
        response = connection.getresponse()
        return response.status, response.read()
    except OSError as error:
        return 0, str(error).encode()
    finally:
        connection.close()


def print_session(session: Session, as_json: bool) -> None:
    if as_json:
        line = {
            "url": session.url,
            "token": session.token,
            "awsEndpoint": session.aws_endpoint,
            "pid": session.pid,
        }
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
    report(f"ready: {session.url}/")
    report(f"the admin token is in {session.state}/admin-token; the shardmill command reads it from there")
    report("press Ctrl-C to stop; the state is kept for the next start")


def report(text: str) -> None:
    with contextlib.suppress(OSError):  # the terminal may be closed
        sys.stderr.write(f"shardmill: {text}\n")
        sys.stderr.flush()
