"""Files in which a running `shardmill dev` publishes its URL and token, for the command line and the SDK."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

DEFAULT_FOLDER = Path(".shardmill")


@dataclass(frozen=True, slots=True)
class Session:
    """How to reach a running laptop cloud: its API and tokens, and its AWS endpoint and resources."""

    url: str
    token: str
    aws_endpoint: str
    pid: int
    state: str
    outputs: dict[str, str] = field(default_factory=dict)
    worker_token: str = ""

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


def alive(pid: int) -> bool:
    """Whether a process runs. One that was killed has ended, even if its parent has not noticed yet."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:  # it has just ended, or this system has no /proc
        return False


def write_private(file: Path, text: str) -> None:
    """Write a file atomically, readable by its owner only."""
    fresh = file.with_name(f".{file.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(text)
    os.replace(fresh, file)
