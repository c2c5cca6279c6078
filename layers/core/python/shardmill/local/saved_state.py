"""The emulator's state on disk: one file per service, in MiniStack's format, replaced atomically.

MiniStack itself copies everything in memory and writes it value by value, 7 s for a million tasks. It ignores
a file that it cannot read: it starts empty, and overwrites the file when it stops.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from importlib import import_module
from pathlib import Path
from typing import Any

FORMAT = "__ministack_format__"


class CorruptState(Exception):
    """A state file cannot be read, or has changed since it was saved."""

    def __init__(self, file: Path, reason_of: str) -> None:
        super().__init__(f"the state file {file} cannot be read ({reason_of})")


class StateFiles:
    def __init__(self, app: Any, folder: Path) -> None:
        self._app = app
        self._folder = folder
        self._unfinished = unfinished_folder(folder)
        self._persistence = import_module("ministack.core.persistence")
        self._functions = app._get_module("lambda_svc")
        self._prune = self._functions._prune_orphan_code_blobs
        self._referenced: set[str] = set()
        self._functions._prune_orphan_code_blobs = self._referenced.update
        self._functions._read_code_blob = self._read_code

    def write(self) -> None:
        """Write all files to a temporary folder, move them into place, then delete unreferenced code."""
        self.drop_unfinished()
        self._unfinished.mkdir(parents=True)
        for service in self._app._state_map:
            with (self._unfinished / f"{service}.json").open("w") as stream:
                stream.write(self._text(service))
                stream.flush()
                os.fsync(stream.fileno())
        self._folder.mkdir(exist_ok=True)
        for file in sorted(self._unfinished.iterdir()):
            file.replace(self._folder / file.name)
        sync_folder(self._folder)
        self._unfinished.rmdir()
        self._prune(self._referenced)

    def drop_unfinished(self) -> None:
        shutil.rmtree(self._unfinished, ignore_errors=True)

    def _text(self, service: str) -> str:
        version = self._persistence._state_format_version(service)
        state = self._module(service).get_state()
        if state is None:
            raise RuntimeError(f"MiniStack's {service} could not be loaded")
        whole = {FORMAT: version, "payload": state}
        return json.dumps(whole, default=self._persistence._json_default, check_circular=False)

    def load(self) -> None:
        """Restore every service; raise CorruptState."""
        files = {service: self._folder / f"{service}.json" for service in self._app._state_map}
        if not any(file.exists() for file in files.values()):
            return
        for service, file in files.items():
            try:
                self._module(service).load_persisted_state(self._read(service, file))
            except CorruptState:
                raise
            except Exception as error:
                raise CorruptState(file, reason_of(error)) from error

    def _read(self, service: str, file: Path) -> dict[str, Any]:
        whole = json.loads(file.read_bytes(), object_hook=self._persistence._json_object_hook)
        if whole[FORMAT] > self._persistence._state_format_version(service):
            raise CorruptState(file, "it was written by a newer version")
        payload = whole["payload"]
        if not isinstance(payload, dict):
            raise CorruptState(file, "it contains no state")
        return payload

    def _read_code(self, digest: str) -> bytes:
        file = Path(self._functions.CODE_BLOB_DIR) / f"{digest}.zip"
        try:
            code = file.read_bytes()
        except OSError as error:
            raise CorruptState(file, reason_of(error)) from error
        if hashlib.sha256(code).hexdigest() != digest:
            raise CorruptState(file, "its content does not match its checksum")
        return code

    def _module(self, service: str) -> Any:
        return self._app._get_module(self._app._state_map[service])


def unfinished_folder(folder: Path) -> Path:
    """The folder of a save that is not finished."""
    return folder.with_name(f"{folder.name}.new")


def sync_folder(folder: Path) -> None:
    """Keep the names of new files through a power failure."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def reason_of(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or f"{type(error).__name__}: {error}"
