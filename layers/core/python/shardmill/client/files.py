"""Files of Jobs, as methods of the Client: those there are, those that come with a request, their content."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import TypeAdapter, ValidationError

from shardmill.client.errors import BadFile, NotFound, TransferFailed
from shardmill.client.requests import Calls, job_path, read, word
from shardmill.client.transfer import (
    Broken,
    Expired,
    Measured,
    Progress,
    Store,
    check,
    inside,
    insist,
    measured,
    whole_file,
)
from shardmill.model.fault import fault
from shardmill.model.files import WorkName
from shardmill.model.transfers import JobFile, Upload

_WORK_NAME: TypeAdapter[str] = TypeAdapter(WorkName)
_WILD = re.compile(r"([*?\[])")


class FileCalls(Calls):
    _store: Store

    def files(
        self, job_name: str, trigger: str, *, step: str | None = None, name: str | None = None
    ) -> Iterator[JobFile]:
        """The files that came with a Job, and those that its tasks made, by steps, tasks and names.

        `name`: only those that this name, or pattern such as `part-*.csv`, fits. Their addresses are good for
        fifteen minutes.
        """
        query = {"step": None if step is None else word(step, "stepName"), "name": name}
        return self._list(JobFile, f"{job_path(job_name, trigger)}/files", query)

    def upload(self, path: str | Path, *, progress: Progress | None = None) -> Upload:
        """Store a file for a Job that is still to be asked for, unless it is there already."""
        return self._send(measured(Path(path), progress))

    def download(
        self,
        file: JobFile,
        target: str | Path,
        *,
        force: bool = False,
        of: tuple[str, str] | None = None,
        progress: Progress | None = None,
    ) -> Path:
        """Fetch a file to a path, or into a folder: one that there is, or a text with / at its end.

        It appears there when it is whole and its checksum right. `force`: also in the place of another. `of`:
        the jobName and trigger of its Job, to ask for a new address if this one is too old.
        """
        path = Path(target)
        if path.is_dir() or str(target).endswith("/"):
            path = inside(path, file.name)
        with whole_file(path, force=force) as out:
            self.download_into(file, out, of=of, progress=progress)
        return path

    def download_into(
        self,
        file: JobFile,
        out: BinaryIO,
        *,
        of: tuple[str, str] | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Write the content of a file; raises `TransferFailed` after it if its checksum is wrong."""
        fetching = _Fetching(self._store, file, out, progress)

        def once() -> None:
            try:
                fetching.go_on()
            except Expired as error:
                if not of:
                    raise TransferFailed(
                        f"{error}; addresses are good for fifteen minutes: list the files again"
                    ) from None
                fetching.url = self._again(file, *of).url
                raise Broken(str(error)) from None

        insist(f"the file {file.name!r} could not be fetched", once, lambda: fetching.have)

    def _again(self, file: JobFile, job_name: str, trigger: str) -> JobFile:
        """A file as it is now, with a new address."""
        exactly = _WILD.sub(r"[\1]", file.name)
        for found in self.files(job_name, trigger, step=file.step_name, name=exactly):
            if (found.step_name, found.index) == (file.step_name, file.index):
                if found.sha256 != file.sha256:
                    raise TransferFailed("it was made anew meanwhile; get it again")
                return found
        raise NotFound(f"the Job {job_name}/{trigger} has no file {file.name!r} any more")

    def _given(
        self, files: Mapping[str, str | Path], progress: Progress | None = None
    ) -> list[dict[str, Any]]:
        """Send files, once all were looked at; what a JobRequest says of them, by their names."""
        for at, name in enumerate(sorted(files)):
            _check_name(name, at)
            check(Path(files[name]))
        found = {name: measured(Path(files[name]), progress) for name in sorted(files)}
        return [
            {"name": name, "upload": self._send(each).upload, "size": each.size}
            for name, each in found.items()
        ]

    def _send(self, file: Measured) -> Upload:
        """A try begins with the question where to, which also tells whether the last one came through."""

        def once() -> Upload:
            wanted = {"size": file.size, "sha256": file.sha256}
            upload = read(Upload, self._http.send("POST", "/v1/uploads", document=wanted, again=True))
            if not upload.present:
                try:
                    self._store.put(upload.url or "", upload.headers, file, file.size)
                except Expired as error:
                    raise TransferFailed(str(error)) from None
            return Upload(upload=upload.upload, present=True)

        return insist(f"{file.path} could not be sent", once, lambda: 0)


class _Fetching:
    """A file on its way, which goes on where it broke off."""

    def __init__(self, store: Store, file: JobFile, out: BinaryIO, progress: Progress | None) -> None:
        self._store, self._file, self._out, self._progress = store, file, out, progress
        self._sha = hashlib.sha256()
        self.have = 0
        self.url = file.url

    def go_on(self) -> None:
        size = self._file.size
        if self.have < size:
            with self._store.get(self.url, self.have) as pieces:
                for piece in pieces:
                    self._take(piece)
        if self.have < size:
            raise Broken(f"it broke off after {self.have} of {size} bytes")
        if self._sha.hexdigest() != self._file.sha256:
            raise TransferFailed("its checksum is not that of the file that was stored")

    def _take(self, piece: bytes) -> None:
        size = self._file.size
        if self.have + len(piece) > size:
            raise TransferFailed(f"there are more than its {size} bytes")
        self._out.write(piece)
        self._sha.update(piece)
        self.have += len(piece)
        if self._progress:
            self._progress(f"fetching {self._file.name}", self.have, size)


def _check_name(name: str, at: int) -> None:
    try:
        _WORK_NAME.validate_python(name, strict=True)
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]["msg"]
        faults = [fault(("files", at, "name"), "bad-file-name", f"{name!r} {wrong}")]
        raise BadFile("a file cannot have this name in the work folder", faults=faults) from None
