"""The emulator as a child process: start it, wait until it answers, and stop it with all its children."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from shardmill.local.child_process import child_command
from shardmill.local.dev_commands import PREFIX
from shardmill.local.environment import LOOPBACK, REGION, aws_environment, clean_environment
from shardmill.local.errors import CORRUPT_STATE_EXIT_CODE, CloudFailed, Refused
from shardmill.local.state_folder import StateFolder, remove

START_SECONDS = 60.0
STOP_SECONDS = 3.0
SAVE_SECONDS = 30.0
CLEANUP_SECONDS = 0.2


def bind(port: int) -> socket.socket:
    """Listen on a port of loopback; port 0 means any free port.

    It listens at once: two sockets that are only bound could share a port."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((LOOPBACK, port))
        listener.listen()
    except OSError as error:
        listener.close()
        raise Refused(
            f"cannot listen on {LOOPBACK}:{port} ({error.strerror}); if another shardmill dev uses the port, "
            "stop it, or choose another port with --port"
        ) from error
    return listener


def emulator_environment(folder: StateFolder, port: int) -> dict[str, str]:
    endpoint = f"http://{LOOPBACK}:{port}"
    return {
        **clean_environment(),
        **aws_environment(endpoint),
        "BIND_HOST": LOOPBACK,
        "GATEWAY_PORT": str(port),
        "MINISTACK_HOST": LOOPBACK,
        "MINISTACK_REGION": REGION,
        "PERSIST_STATE": "1",
        "STATE_DIR": str(folder.services),
        "S3_PERSIST": "1",
        "S3_DATA_DIR": str(folder.cloud / "s3"),
        "TMPDIR": str(folder.scratch),
        "IOT_MTLS_ENABLED": "0",
        "SFTP_ENABLED": "0",
        "LOG_LEVEL": "WARNING",
        "LAMBDA_ACCOUNT_CONCURRENCY": "1000",
    }


@dataclass(frozen=True, slots=True)
class Cloud:
    endpoint: str
    folder: StateFolder
    process: subprocess.Popen[bytes]

    @classmethod
    def start(cls, folder: StateFolder, listener: socket.socket, lock: int) -> Cloud:
        """Start the emulator, which holds the lock until it has saved; its own session keeps Ctrl-C away."""
        port = listener.getsockname()[1]
        folder.prepare()
        threading.Thread(target=remove, args=(folder.temporary_folders(), START_SECONDS), daemon=True).start()
        with folder.log("cloud").open("ab") as log:
            process = subprocess.Popen(
                child_command("shardmill.local.emulator", str(listener.fileno())),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=emulator_environment(folder, port),
                cwd=folder.path,
                pass_fds=(listener.fileno(), lock),
                start_new_session=True,
            )
        listener.close()
        return cls(f"http://{LOOPBACK}:{port}", folder, process)

    def wait_until_up(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            self.check()
            if self._answers():
                return
            time.sleep(0.02)
        raise self._failed(f"did not answer within {START_SECONDS:.0f} s")

    def save(self) -> None:
        """Save all state, including changes that the journal does not record."""
        self._command("save")

    def resume(self) -> None:
        """Resume the executions that the last stop interrupted."""
        self._command("resume")

    def _command(self, name: str) -> None:
        try:
            status = self._request("POST", PREFIX + name, SAVE_SECONDS)
        except OSError as error:
            self.check()
            raise self._failed(f"did not {name} ({error})") from error
        if status != 204:
            raise self._failed(f"did not {name} (status {status})")

    def check(self) -> None:
        if (code := self.process.poll()) == CORRUPT_STATE_EXIT_CODE:
            raise self.folder.corrupt_state(self.folder.last_log_line("cloud"))
        if code is not None:
            raise self._failed(f"exited unexpectedly (exit code {code})")

    def _failed(self, what: str) -> CloudFailed:
        return CloudFailed(f"the laptop cloud {what}; see its log {self.folder.log('cloud')}")

    def _answers(self) -> bool:
        try:
            return self._request("GET", "/_ministack/health", 5) == 200
        except OSError:
            return False

    def _request(self, method: str, path: str, seconds: float) -> int:
        connection = http.client.HTTPConnection(self.endpoint.removeprefix("http://"), timeout=seconds)
        try:
            connection.request(method, path)
            return connection.getresponse().status
        finally:
            connection.close()

    def stop(self, report: Callable[[str], None]) -> None:
        """Let the emulator save its state and exit, then kill the rest of its process group.

        Raises CloudFailed if the state was not saved."""
        running = self.process.poll() is None
        self.process.send_signal(signal.SIGTERM)
        if not self._exits_within(STOP_SECONDS):
            report("still saving the state")
            self._exits_within(SAVE_SECONDS)
        code = self.process.poll()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        if self.process.stdin:
            self.process.stdin.close()
        remove(self.folder.temporary_folders(), CLEANUP_SECONDS)
        if running and (code is None or code > 0):
            raise self._failed("exited before it saved its last changes")

    def _exits_within(self, seconds: float) -> bool:
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True
