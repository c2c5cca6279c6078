"""`shardmill dev`: the laptop cloud from start to stop."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

from shardmill.local import emulator_quirks
from shardmill.local.cloud import Cloud, bind
from shardmill.local.errors import CloudFailed, Refused
from shardmill.local.session import Session
from shardmill.local.state_folder import StateFolder
from shardmill.local.workers import Workers

READY_SECONDS = 60.0
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
GROUPS = {"default", "lambda"}
ROOT = Path(__file__).resolve().parents[5]


class Stopped(BaseException):
    """Somebody asked this process to stop."""


@dataclass(frozen=True, slots=True)
class Laptop:
    """A laptop cloud that is ready."""

    session: Session
    cloud: Cloud
    workers: Workers

    def tend(self) -> None:
        """To be called every moment: replaces dead workers, and fails if the cloud itself is gone."""
        self.cloud.check()
        self.workers.tend()


def run_dev(port: int | None, state: Path | None, workers: int, as_json: bool, root: Path = ROOT) -> int:
    """Run until Ctrl-C, SIGTERM or SIGHUP. The exit code: 0 stopped, 1 failed, 2 refused to start."""
    try:
        with stoppable(), laptop(port, state, workers, root) as ready:
            announce(ready.session, as_json)
            while True:
                ready.tend()
                time.sleep(0.2)
    except Stopped:
        return 0
    except Refused as refusal:
        say(str(refusal))
        return 2
    except CloudFailed as failure:
        say(str(failure))
        return 1


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """The first SIGINT, SIGTERM or SIGHUP raises Stopped; more of them change nothing: the end is orderly.

    A SIGHUP that is ignored already stays so: nohup did that."""
    heard = [
        number
        for number in STOPPING
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN
    ]

    def stop(*_: Any) -> NoReturn:
        for number in heard:
            signal.signal(number, signal.SIG_IGN)
        raise Stopped

    before = {number: signal.signal(number, stop) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def laptop(
    port: int | None, state: Path | None, workers: int, root: Path = ROOT, *, publish: bool = True
) -> Iterator[Laptop]:
    """A cloud with this repository deployed to it, and workers; stopped at the end, with all it started.

    Published, the command line finds it by itself."""
    with contextlib.ExitStack() as ending:
        listener = ending.enter_context(bind(port)) if port is not None else None
        folder = StateFolder.at(state)
        lock = ending.enter_context(folder.locked())
        listener = listener or ending.enter_context(_usual_listener(folder))
        say(f"starting the laptop cloud in {folder.path}, port {listener.getsockname()[1]}")
        cloud = Cloud.start(folder, listener, lock)
        ending.callback(cloud.stop, say)
        session = _deployed(cloud, folder, root)
        crew = Workers(session, folder, say)
        ending.callback(crew.stop)
        crew.start(workers)
        _wait_until_ready(session, cloud)
        if publish:
            ending.callback(session.withdraw)
            session.publish()
        yield Laptop(session, cloud, crew)


def _usual_listener(folder: StateFolder) -> socket.socket:
    """The port this state folder had before, else any."""
    port = folder.remembered().get("port", 0)
    try:
        return bind(port)
    except Refused:
        return bind(0)


def _deployed(cloud: Cloud, folder: StateFolder, root: Path) -> Session:
    """Deploy what changed since the last time."""
    from shardmill.local import deploy  # heavy: after the emulator is on its way

    token = folder.admin_token()
    token_hash = hashlib.sha256(token.encode()).hexdigest()
    package = deploy.Package(root)
    version = f"{package.digest}-{token_hash[:16]}"
    cloud.wait_until_up()
    endpoint = deploy.Endpoint(cloud.endpoint)
    deployer = deploy.Deployer(endpoint)
    outputs = deployer.outputs() if folder.remembered().get("version") == version else None
    if outputs is None:
        say("deploying template.yaml")
        outputs = deployer.deploy(package, {"AdminTokenHash": token_hash, "NotifyLoopback": "true"})
    else:
        emulator_quirks.tick_now(endpoint.client("lambda"), deploy.STACK)
    folder.remember(version=version, port=urlsplit(cloud.endpoint).port)
    return Session(
        url=emulator_quirks.local_api_url(cloud.endpoint, outputs["ApiId"]),
        token=token,
        aws_endpoint=cloud.endpoint,
        pid=os.getpid(),
        state=str(folder.path),
        outputs=outputs,
    )


def _wait_until_ready(session: Session, cloud: Cloud) -> None:
    """Ready is: the API answers, and the two first groups are there."""
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
        f"the API was not ready within {READY_SECONDS:.0f} s; its last answer was {status} {answer[:500]!r}; "
        f"the log of the cloud is {cloud.folder.log('cloud')}"
    )


def _get(session: Session, path: str) -> tuple[int, bytes]:
    url = urlsplit(session.url)
    connection = http.client.HTTPConnection(url.netloc, timeout=30)
    try:
        connection.request("GET", url.path + path, headers={"Authorization": f"Bearer {session.token}"})
        response = connection.getresponse()
        return response.status, response.read()
    except OSError as error:
        return 0, str(error).encode()
    finally:
        connection.close()


def announce(session: Session, as_json: bool) -> None:
    if as_json:
        line = {
            "url": session.url,
            "token": session.token,
            "awsEndpoint": session.aws_endpoint,
            "pid": session.pid,
        }
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
    say(f"ready: {session.url}/")
    say(f"the admin token is in {session.state}/admin-token; the shardmill command finds it by itself")
    say("stop with Ctrl-C; what is here is kept for the next time")


def say(text: str) -> None:
    with contextlib.suppress(OSError):  # the terminal may be closed: nobody reads it
        sys.stderr.write(f"shardmill: {text}\n")
        sys.stderr.flush()
