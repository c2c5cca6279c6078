"""The emulator's state on disk: a file a service, in MiniStack's format. Written whole or not at all, read or
refused.

MiniStack itself copies everything in memory and then writes it value by value: 7 s for a million tasks. And a
file that it cannot read counts as none: it starts empty, and writes over it when it stops.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from importlib import import_module
from pathlib import Path
from typing import Any

FORMAT = "__ministack_format__"


class Spoilt(Exception):
    """A file of the state is not as it was saved."""

    def __init__(self, file: Path, why: str) -> None:
        super().__init__(f"the state file {file} cannot be read ({why})")


class Saved:
    def __init__(self, app: Any, folder: Path) -> None:
        self._app = app
        self._folder = folder
        self._fresh = fresh_of(folder)
        self._persistence = import_module("ministack.core.persistence")
        self._functions = app._get_module("lambda_svc")
        self._prune = self._functions._prune_orphan_code_blobs
        self._referenced: set[str] = set()
        self._functions._prune_orphan_code_blobs = self._referenced.update
        self._functions._read_code_blob = self._read_code

    def write(self) -> None:
        """Every file is written aside before the first takes its place; then code that none names goes."""
        self.drop_unfinished()
        self._fresh.mkdir(parents=True)
        for service in self._app._state_map:
            (self._fresh / f"{service}.json").write_text(self._text(service))
        self._folder.mkdir(exist_ok=True)
        for file in sorted(self._fresh.iterdir()):
            file.replace(self._folder / file.name)
        self._fresh.rmdir()
        self._prune(self._referenced)

    def drop_unfinished(self) -> None:
        shutil.rmtree(self._fresh, ignore_errors=True)

    def _text(self, service: str) -> str:
        version = self._persistence._state_format_version(service)
        state = self._module(service).get_state()
        if state is None:
            raise RuntimeError(f"MiniStack's {service} could not be loaded")
        whole = {FORMAT: version, "payload": state}
        return json.dumps(whole, default=self._persistence._json_default, check_circular=False)

    def load(self) -> None:
        """Give each service what was saved of it; raises Spoilt."""
        files = {service: self._folder / f"{service}.json" for service in self._app._state_map}
        if not any(file.exists() for file in files.values()):
            return
        for service, file in files.items():
            try:
                self._module(service).load_persisted_state(self._read(service, file))
            except Spoilt:
                raise
            except Exception as error:
                raise Spoilt(file, why(error)) from error

    def _read(self, service: str, file: Path) -> dict[str, Any]:
        whole = json.loads(file.read_bytes(), object_hook=self._persistence._json_object_hook)
        if whole[FORMAT] > self._persistence._state_format_version(service):
            raise Spoilt(file, "a newer version has written it")
        payload = whole["payload"]
        if not isinstance(payload, dict):
            raise Spoilt(file, "there is no state in it")
        return payload

    def _read_code(self, digest: str) -> bytes:
        file = Path(self._functions.CODE_BLOB_DIR) / f"{digest}.zip"
        try:
            code = file.read_bytes()
        except OSError as error:
            raise Spoilt(file, why(error)) from error
        if hashlib.sha256(code).hexdigest() != digest:
            raise Spoilt(file, "it is not what was saved")
        return code

    def _module(self, service: str) -> Any:
        return self._app._get_module(self._app._state_map[service])


def fresh_of(folder: Path) -> Path:
    """Where a save is written that is not finished."""
    return folder.with_name(f"{folder.name}.new")


def why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or f"{type(error).__name__}: {error}"
