"""The folder in which a laptop cloud keeps its state, and the lock that gives it to one `dev` at a time."""

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

from shardmill.local.errors import Refused

DEFAULT_FOLDER = Path(".shardmill")
STOPPING_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class StateFolder:
    path: Path

    @classmethod
    def at(cls, path: Path | None) -> StateFolder:
        """Make the folder if need be; only its owner can look into it."""
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
        """The state of the emulator, a file a service."""
        return self.cloud / "state"

    @property
    def scratch(self) -> Path:
        return self.cloud / "tmp"

    def log(self, name: str) -> Path:
        return self.path / "logs" / f"{name}.log"

    def last_words(self, name: str) -> str:
        return self.log(name).read_text(errors="replace").rstrip().rpartition("\n")[2]

    def prepare(self) -> None:
        """Make the folders of the emulator. Of a first deployment that did not finish, nothing is kept."""
        if "version" not in self.remembered():
            shutil.rmtree(self.cloud, ignore_errors=True)
        self.scratch.mkdir(parents=True, exist_ok=True)

    def leavings(self) -> list[Path]:
        """What Lambda processes left lying about: a copy of the layer each."""
        return list(self.scratch.iterdir())

    def admin_token(self) -> str:
        """The deployment's admin token: made once, readable by its owner only."""
        file = self.path / "admin-token"
        with contextlib.suppress(FileNotFoundError):
            if token := file.read_text().strip():
                return token
        token = secrets.token_urlsafe(32)
        write_private(file, token + "\n")
        return token

    def remembered(self) -> dict[str, Any]:
        """What the last `dev` here left for the next one."""
        file = self.path / "deployment.json"
        try:
            known = json.loads(file.read_bytes())
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise self.spoilt(f"the state file {file} cannot be read ({error})") from error
        if not isinstance(known, dict):
            raise self.spoilt(f"the state file {file} cannot be read (there is no JSON object in it)")
        return known

    def spoilt(self, what: str) -> Refused:
        return Refused(
            f"{what}; put it back from a copy, or remove the state folder {self.path} to begin anew: "
            "nothing in it was changed"
        )

    def remember(self, **facts: Any) -> None:
        write_private(self.path / "deployment.json", json.dumps(self.remembered() | facts))

    @contextlib.contextmanager
    def locked(self) -> Iterator[int]:
        """Own the folder; gives the lock's descriptor, which the emulator holds too until it has saved."""
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
                        f"another shardmill dev (process {owner}) already uses the state folder {self.path}; "
                        "stop it, or choose another folder with --state"
                    ) from None
            time.sleep(0.05)


def remove(folders: Iterable[Path], seconds: float) -> None:
    """Remove folders while there is time; what is left is not missed."""
    deadline = time.monotonic() + seconds
    for folder in folders:
        if time.monotonic() < deadline:
            shutil.rmtree(folder, ignore_errors=True)


def alive(pid: int) -> bool:
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def write_private(file: Path, text: str) -> None:
    """Write a file whole or not at all, for its owner's eyes only."""
    fresh = file.with_name(f".{file.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(text)
    os.replace(fresh, file)
