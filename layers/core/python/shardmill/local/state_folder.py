"""The state folder of a laptop cloud, with a lock that only one `dev` holds at a time."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shardmill.client.dev_session import DEFAULT_FOLDER, alive, write_private
from shardmill.engine.authorize import token_from
from shardmill.local.errors import Refused

STOPPING_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class StateFolder:
    path: Path

    @classmethod
    def at(cls, path: Path | None) -> StateFolder:
        """Create the folder if it does not exist, accessible to its owner only."""
        folder = (path or DEFAULT_FOLDER).expanduser().absolute()
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            (folder / "logs").mkdir(exist_ok=True)
            (folder / ".gitignore").write_text("*\n")
        except OSError as error:
            raise Refused(
                f"cannot use the state folder {folder}: {error.strerror}; choose another with --state"
            ) from error
        return cls(folder)

    @property
    def cloud(self) -> Path:
        return self.path / "cloud"

    @property
    def services(self) -> Path:
        """The emulator's state, one file per service."""
        return self.cloud / "state"

    @property
    def scratch(self) -> Path:
        return self.cloud / "tmp"

    def log(self, name: str) -> Path:
        return self.path / "logs" / f"{name}.log"

    def last_log_line(self, name: str) -> str:
        return self.log(name).read_text(errors="replace").rstrip().rpartition("\n")[2]

    def prepare(self) -> None:
        """Create the emulator's folders; remove the leftovers of an unfinished first deployment."""
        if "version" not in self.deployment():
            shutil.rmtree(self.cloud, ignore_errors=True)
        self.scratch.mkdir(parents=True, exist_ok=True)

    def temporary_folders(self) -> list[Path]:
        """Folders that Lambda processes left behind, each with a copy of the layer."""
        return list(self.scratch.iterdir())

    def admin_token(self) -> str:
        """The deployment's admin token, created once, in a file that only its owner can read."""
        token = self._token("admin-token")
        if not token:
            token = token_from(secrets.token_bytes(32))
            write_private(self.path / "admin-token", token + "\n")
        return token

    def worker_token(self) -> str:
        """The token of workers over HTTP; empty if none was saved."""
        return self._token("worker-token")

    def save_worker_token(self, token: str) -> None:
        write_private(self.path / "worker-token", token + "\n")

    def _token(self, name: str) -> str:
        try:
            return (self.path / name).read_text().strip()
        except FileNotFoundError:
            return ""

    def deployment(self) -> dict[str, Any]:
        """The version and port of the last deployment here; empty if there was none."""
        file = self.path / "deployment.json"
        try:
            known = json.loads(file.read_bytes())
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise self.corrupt_state(f"the state file {file} cannot be read ({error})") from error
        if not isinstance(known, dict):
            raise self.corrupt_state(f"the state file {file} cannot be read (it contains no JSON object)")
        return known

    def corrupt_state(self, what: str) -> Refused:
        return Refused(
            f"{what}; restore it from a backup, or remove the state folder {self.path} to start over; "
            "nothing was changed"
        )

    def save_deployment(self, **facts: Any) -> None:
        write_private(self.path / "deployment.json", json.dumps(self.deployment() | facts))

    @contextlib.contextmanager
    def locked(self) -> Iterator[int]:
        """Lock the folder; yield the descriptor of the lock, which the emulator holds until it has saved."""
        descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            self._acquire(descriptor)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
            yield descriptor
        finally:
            os.close(descriptor)

    def _acquire(self, descriptor: int) -> None:
        deadline = time.monotonic() + STOPPING_SECONDS
        while True:
            try:
                return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                owner = os.pread(descriptor, 20, 0).decode() or "0"
                if alive(int(owner)) or time.monotonic() > deadline:
                    raise Refused(
                        f"another shardmill dev (process {owner}) is using the state folder {self.path}; "
                        "stop it, or choose another folder with --state"
                    ) from None
            time.sleep(0.05)


def remove(folders: Iterable[Path], seconds: float) -> None:
    """Remove folders until the time is up, best effort."""
    deadline = time.monotonic() + seconds
    for folder in folders:
        if time.monotonic() < deadline:
            shutil.rmtree(folder, ignore_errors=True)
