"""Where a running `shardmill dev` says how to reach it, for the command line and the SDK to find."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

from shardmill.local.environment import aws_environment
from shardmill.local.state import DEFAULT_FOLDER, alive, write_private

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
        text = json.dumps(asdict(self), indent=2) + "\n"
        write_private(Path(self.state) / "dev.json", text)
        pointer_file().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(pointer_file(), text)

    def withdraw(self) -> None:
        """Take back what was published, but not what a later `dev` published in its place."""
        for file in (Path(self.state) / "dev.json", pointer_file()):
            known = _read(file)
            if known is not None and known.pid == self.pid:
                with contextlib.suppress(FileNotFoundError):
                    file.unlink()


def pointer_file() -> Path:
    """The user's last started `dev`, wherever its state folder is."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "shardmill" / "dev.json"


def find_session() -> Session | None:
    """The `dev` of this folder, else the user's last started one; None if none runs."""
    for file in (DEFAULT_FOLDER / "dev.json", pointer_file()):
        session = _read(file)
        if session is not None and alive(session.pid):
            return session
    return None


def _read(file: Path) -> Session | None:
    try:
        return Session(**json.loads(file.read_text()))
    except (OSError, ValueError, TypeError):
        return None
