"""Where a running `shardmill dev` says how to reach it, for the command line and the SDK to find."""

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
    """A running laptop cloud: its API with the token, and what a worker needs that goes straight to AWS."""

    url: str
    token: str
    aws_endpoint: str
    pid: int
    state: str
    outputs: dict[str, str] = field(default_factory=dict)

    def environ(self) -> dict[str, str]:
        """The variables of a process that talks to this cloud, over HTTP or straight to AWS."""
        settings = {name: self.outputs[output] for name, output in _SETTINGS.items()}
        return {
            "SHARDMILL_URL": self.url,
            "SHARDMILL_TOKEN": self.token,
            "SHARDMILL_BUS": "default",
            **settings,
            **aws_environment(self.aws_endpoint),
        }

    def publish(self) -> None:
        pointers().mkdir(mode=0o700, parents=True, exist_ok=True)
        for file in self._files():
            write_private(file, json.dumps(asdict(self), indent=2) + "\n")

    def withdraw(self) -> None:
        for file in self._files():
            file.unlink(missing_ok=True)

    def _files(self) -> tuple[Path, Path]:
        return Path(self.state) / "dev.json", pointers() / f"{self.pid}.json"


def pointers() -> Path:
    """The user's running `dev`s, wherever their state folders are: a file each, named by process."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "shardmill" / "dev"


def find_session() -> Session | None:
    """The `dev` of this folder, else the one that the user started last; None if none runs."""
    started = sorted(pointers().glob("*.json"), key=_age)
    for file in (DEFAULT_FOLDER / "dev.json", *started):
        session = _read(file)
        if session is not None and alive(session.pid):
            return session
    return None


def _age(file: Path) -> float:
    """Less is younger; a file that has just gone is oldest."""
    try:
        return -file.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _read(file: Path) -> Session | None:
    try:
        return Session(**json.loads(file.read_text()))
    except (OSError, ValueError, TypeError):
        return None
