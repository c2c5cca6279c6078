"""Files of Jobs, as methods of the Client: list, upload and download."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import TypeAdapter, ValidationError

from shardmill.client.calls import Calls, job_path, path_segment, read
from shardmill.client.errors import BadFile, NotFound, TransferFailed
from shardmill.client.local_files import (
    MeasuredFile,
    Progress,
    check_upload,
    measure,
    new_file,
    path_inside,
)
from shardmill.client.transfer import ObjectStore, retry_transfer
from shardmill.model.fault import fault
from shardmill.model.files import WorkName
from shardmill.model.transfers import Fetch, JobFile, Upload
from shardmill.transfer.download import Download
from shardmill.transfer.exchange import ExpiredUrl, PermanentError
from shardmill.transfer.upload import put

_WORK_NAME: TypeAdapter[str] = TypeAdapter(WorkName)
_WILDCARD = re.compile(r"([*?\[])")


class FileCalls(Calls):
    _store: ObjectStore

    def files(
        self, job_name: str, trigger: str, *, step: str | None = None, name: str | None = None
    ) -> Iterator[JobFile]:
        """The files that were submitted with a Job, and the outputs of its tasks, by step, task and name.

        `name`: only files with this name, or that match a pattern such as `part-*.csv`. Their URLs expire
        after fifteen minutes.
        """
        query = {"step": None if step is None else path_segment(step, "stepName"), "name": name}
        return self._list(JobFile, f"{job_path(job_name, trigger)}/files", query)

    def upload(self, path: str | Path, *, progress: Progress | None = None) -> Upload:
        """Upload a file for a Job that will be submitted, unless it is stored already."""
        return self._upload(measure(Path(path), progress))

    def download(
        self,
        file: JobFile,
        target: str | Path,
        *,
        force: bool = False,
        of: tuple[str, str] | None = None,
        progress: Progress | None = None,
    ) -> Path:
        """Download a file to a path, or into a folder: an existing one, or a path that ends with /.

        It appears there when it is complete and its checksum is correct. `force`: overwrite an existing file.
        `of`: the jobName and trigger of its Job, to get a new URL if this one has expired.
        """
        path = Path(target)
        if path.is_dir() or str(target).endswith("/"):
            path = path_inside(path, file.name)
        with new_file(path, force=force) as out:
            self._download(file, out, of, progress, rewindable=True)
        return path

    def download_into(
        self,
        file: JobFile,
        out: BinaryIO,
        *,
        of: tuple[str, str] | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Write a file to a stream; raises `TransferFailed` after its last byte if the checksum is wrong."""
        self._download(file, out, of, progress, rewindable=False)

    def _download(
        self,
        file: JobFile,
        out: BinaryIO,
        of: tuple[str, str] | None,
        progress: Progress | None,
        *,
        rewindable: bool,
    ) -> None:
        def report(received: int) -> None:
            if progress:
                progress(f"downloading {file.name}", received, file.size)

        source = Fetch.model_construct(name=file.name, size=file.size, sha256=file.sha256)
        download = Download(source, out, self._store.exchange, progress=report, rewindable=rewindable)
        url = file.url

        def attempt() -> None:
            nonlocal url
            try:
                download.attempt(url, lambda: True)
            except ExpiredUrl as error:
                if not of:
                    raise PermanentError(
                        f"{error}; URLs expire after fifteen minutes: list the files again"
                    ) from None
                url = self._refreshed(file, *of).url
                raise

        retry_transfer(f"cannot download the file {file.name!r}", attempt, lambda: download.farthest)

    def _refreshed(self, file: JobFile, job_name: str, trigger: str) -> JobFile:
        """The same file with a new URL."""
        literal = _WILDCARD.sub(r"[\1]", file.name)
        for found in self.files(job_name, trigger, step=file.step_name, name=literal):
            if (found.step_name, found.index) == (file.step_name, file.index):
                if found.sha256 != file.sha256:
                    raise TransferFailed(
                        f"the file {file.name!r} was replaced during the download; download it again"
                    )
                return found
        raise NotFound(f"the Job {job_name}/{trigger} no longer has a file {file.name!r}")

    def _upload_all(
        self, files: Mapping[str, str | Path], progress: Progress | None = None
    ) -> list[dict[str, Any]]:
        """Upload files after checking all of them; return the `files` of a JobRequest, sorted by name."""
        for at, name in enumerate(sorted(files)):
            _check_name(name, at)
            check_upload(Path(files[name]))
        found = {name: measure(Path(files[name]), progress) for name in sorted(files)}
        return [
            {"name": name, "upload": self._upload(each).upload, "size": each.size}
            for name, each in found.items()
        ]

    def _upload(self, file: MeasuredFile) -> Upload:
        """Upload a file; each attempt requests a URL first, which shows if the previous one succeeded."""

        def attempt() -> Upload:
            wanted = {"size": file.size, "sha256": file.sha256}
            upload = read(Upload, self._http.send("POST", "/v1/uploads", document=wanted, idempotent=True))
            if not upload.present:
                put(
                    self._store.exchange,
                    upload.url or "",
                    upload.headers,
                    file,
                    file.size,
                    None,
                )
            return Upload(upload=upload.upload, present=True)

        return retry_transfer(f"cannot upload {file.path}", attempt)


def _check_name(name: str, at: int) -> None:
    try:
        _WORK_NAME.validate_python(name, strict=True)
    except ValidationError as error:
        reason = error.errors(include_url=False)[0]["msg"]
        faults = [fault(("files", at, "name"), "bad-file-name", f"{name!r} {reason}")]
        raise BadFile("a file cannot have this name in the work folder", faults=faults) from None
