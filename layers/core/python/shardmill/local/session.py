"""Files in which a running `shardmill dev` publishes its URL and token, for the command line and the SDK."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

from shardmill.local.environment import aws_environment
from shardmill.local.state_folder import DEFAULT_FOLDER, alive, write_private

_SETTINGS = {
    "SHARDMILL_STACK": "StackName",
    "SHARDMILL_TABLE": "TableName",
    "SHARDMILL_BUCKET": "BucketName",
    "SHARDMILL_JOB_MACHINE": "JobMachineArn",
    "SHARDMILL_STEP_MACHINE": "StepMachineArn",
    "SHARDMILL_LAMBDA_QUEUES": "LambdaQueueUrls",
    "SHARDMILL_DEAD_QUEUE": "DeadQueueUrl",
}


@dataclass(frozen=True, slots=True)
class Session:
    """How to reach a running laptop cloud: its API and token, and its AWS endpoint and resources."""

    url: str
    token: str
    aws_endpoint: str
    pid: int
    state: str
    outputs: dict[str, str] = field(default_factory=dict)

    def environ(self) -> dict[str, str]:
        """Environment variables of a process that uses this cloud, over HTTP or the AWS APIs."""
        settings = {name: self.outputs[output] for name, output in _SETTINGS.items()}
        return {
            "SHARDMILL_URL": self.url,
            "SHARDMILL_TOKEN": self.token,
            "SHARDMILL_BUS": "default",
            **settings,
            **aws_environment(self.aws_endpoint),
        }

    def publish(self) -> None:
        session_folder().mkdir(mode=0o700, parents=True, exist_ok=True)
        for file in self._files():
            write_private(file, json.dumps(asdict(self), indent=2) + "\n")

    def withdraw(self) -> None:
        for file in self._files():
            file.unlink(missing_ok=True)

    def _files(self) -> tuple[Path, Path]:
        return Path(self.state) / "dev.json", session_folder() / f"{self.pid}.json"


def session_folder() -> Path:
    """The folder with one file for each running `dev` of the user, named by process id."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "shardmill" / "dev"


def find_session() -> Session | None:
    """Find the `dev` of the current folder, else the one that the user started last; None if none runs."""
    started = sorted(session_folder().glob("*.json"), key=_age)
    for file in (DEFAULT_FOLDER / "dev.json", *started):
        session = _read(file)
        if session is not None and alive(session.pid):
            return session
    return None


def _age(file: Path) -> float:
    """A key that sorts the newest file first, and one that no longer exists last."""
    try:
        return -file.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _read(file: Path) -> Session | None:
    try:
        return Session(**json.loads(file.read_text()))
    except (OSError, ValueError, TypeError):
        return None
