"""Fetching what a task reads into its folder, and storing what it wrote, at the addresses Shardmill gives."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePosixPath
from threading import Event
from typing import BinaryIO

from shardmill.model.files import File
from shardmill.model.transfers import Fetch, StoreAnswer, Stored, part_ranges
from shardmill.model.worker import Lease
from shardmill.worker.files import safe_paths
from shardmill.worker.files.cache import Cache
from shardmill.worker.files.download import Download, answering, refusal
from shardmill.worker.files.patience import Absent, Errand, Failing, Final, Signed
from shardmill.worker.files.patience import Halted as Halted
from shardmill.worker.files.patience import Pace as Pace
from shardmill.worker.files.safe_paths import NOTHING_BROUGHT, Measured, Traits
from shardmill.worker.files.safe_paths import TransferError as TransferError
from shardmill.worker.task import http_task as web
from shardmill.worker.transport.base import FileDesk

_BATCH_PARTS = 100
_ENCRYPTION = "x-amz-server-side-encryption"
_OWN_KEY = f"{_ENCRYPTION}-customer-algorithm"


def fetch_all(
    files: Sequence[Fetch],
    folder: Path,
    *,
    cache: Cache | None,
    allow_hosts: Sequence[str],
    stop: Event,
    progress: Callable[[str], None],
    renew: Callable[[], Sequence[Fetch]] | None = None,
    give: Callable[[Path], None] | None = None,
    pace: Pace = Pace(),
) -> list[Path]:
    """Bring the files into `folder`, except optional ones that are not there. Raises TransferError.

    `give` is told of each file and folder made, to hand it to another user; never of what the cache shares.
    """
    _once_each(files)
    errand = Errand(stop, progress, pace)
    urls = {file.name: file.url for file in files}
    signed = None
    if renew:
        ask_again = renew
        signed = Signed(lambda: urls.update({file.name: file.url for file in ask_again()}), pace.now)
    paths = []
    for file in files:
        what = f"{file.kind} {file.name!r}"
        try:
            if file.missing:
                raise Absent("the step that makes it stored no such file")
            path = safe_paths.target(folder, file.name, give)
            download = partial(_download, file, urls, errand, allow_hosts, None if file.plain else signed)
            if cache and file.kind == "predata" and cache.key(file):
                cache.get(file, path, download, pause=errand.rest)
            else:
                _whole_or_not_at_all(path, download)
                if give:
                    give(path)
        except Absent as error:
            if not file.optional:
                raise TransferError(f"{what} is missing: {error}") from None
        else:
            paths.append(path)
    return paths


def _once_each(files: Sequence[Fetch]) -> None:
    names = [*(file.name for file in files), *{file.into: None for file in files if file.into}]
    twice = [name for name, times in Counter(map(PurePosixPath, names)).items() if times > 1]
    if twice:
        raise TransferError(
            f"a file {str(twice[0])!r} is asked for twice: give one of them another name; files of one name "
            f"that several tasks made are told apart by a pattern such as '*/{twice[0].name}'"
        )


def _download(
    file: Fetch,
    urls: dict[str, str],
    errand: Errand,
    hosts: Sequence[str],
    signed: Signed | None,
    path: Path,
) -> None:
    with open(path, "wb") as out:
        download = Download(file, out, errand, hosts)
        errand.insist(
            f"{file.kind} {file.name!r} could not be fetched",
            lambda: download.once(urls[file.name], signed),
            signed=signed,
            moved=lambda: download.farthest,
        )


def _whole_or_not_at_all(path: Path, download: Callable[[Path], None]) -> None:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".fetch-")
    os.close(descriptor)
    try:
        download(Path(name))
        os.replace(name, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name)


def store_all(
    lease: Lease,
    outputs: Sequence[File],
    folder: Path,
    desk: FileDesk,
    *,
    stop: Event,
    progress: Callable[[str], None],
    brought: Mapping[str, Traits] = NOTHING_BROUGHT,
    pace: Pace = Pace(),
) -> list[Stored]:
    """Store what a task wrote, once all of it is found to be as it must be. Raises TransferError."""
    errand = Errand(stop, progress, pace)

    def measured() -> Iterator[Measured]:
        for output in safe_paths.chosen(outputs, folder, brought):
            yield safe_paths.measure(folder, output, partial(errand.go_on, f"reading {output.path}"))

    stored = []
    for batch in _batches(measured()):
        uploads = _Uploads(lease, desk, errand, batch)
        for file in batch:
            uploads.send(file, folder)
            stored.append(file.stored)
    return stored


def _batches(files: Iterable[Measured]) -> Iterator[list[Measured]]:
    """As many as are stored soon: addresses do not stay good for long."""
    batch: list[Measured] = []
    for file in files:
        if batch and sum(len(each.md5s) for each in batch) + len(file.md5s) > _BATCH_PARTS:
            yield batch
            batch = []
        batch.append(file)
    if batch:
        yield batch


class _Uploads:
    """Some outputs and the addresses that Shardmill gave for them."""

    def __init__(self, lease: Lease, desk: FileDesk, errand: Errand, files: Sequence[Measured]) -> None:
        self._lease, self._desk, self._errand = lease, desk, errand
        self._answers: dict[str, StoreAnswer] = {}
        errand.insist("the outputs could not be stored", partial(self._ask, files))
        now = errand.pace.now
        self._signed = {file.output.name: Signed(partial(self._ask, [file]), now) for file in files}

    def _ask(self, files: Sequence[Measured]) -> None:
        given = {
            answer.name: answer for answer in self._desk.store(self._lease, [file.request for file in files])
        }
        for file in files:
            answer = given.get(file.output.name)
            if not answer or not len(answer.urls) == len(answer.headers) == len(file.md5s):
                raise Final(f"Shardmill did not say where to store {file.output.name!r}")
        self._answers |= given

    def send(self, file: Measured, folder: Path) -> None:
        """Part by part; addresses that became too old may be of another upload, which has no part yet."""
        name, what = file.output.name, f"output {file.output.path!r} could not be stored"
        etags: list[str] = []
        uploads = {self._answers[name].upload_id}
        with safe_paths.open_inside(folder, file.output.path) as content:
            while len(etags) < len(file.md5s):
                upload = self._answers[name].upload_id
                put = partial(self._put, file, len(etags), content)
                etag = self._errand.insist(what, put, signed=self._signed[name])
                if self._answers[name].upload_id == upload:
                    etags.append(etag)
                    continue
                etags = [] if etags else [etag]
                uploads.add(self._answers[name].upload_id)
                if len(uploads) > self._errand.pace.tries:
                    raise TransferError(f"{what}: it takes longer than its addresses are good for")
        if upload := self._answers[name].upload_id:
            self._errand.insist(what, partial(self._desk.complete, self._lease, name, upload, etags))

    def _put(self, file: Measured, number: int, content: BinaryIO) -> str:
        """The ETag of a part."""
        name, errand = file.output.name, self._errand
        first, end = part_ranges(file.size)[number]
        url = self._answers[name].urls[number]
        given = self._answers[name].headers[number].items()
        headers = {"User-Agent": "shardmill", "Content-Length": str(end - first)}
        headers |= {header: value for header, value in given if header.lower() != "content-length"}

        def body() -> Iterator[bytes]:
            for piece in safe_paths.pieces(content, first, end, file.output):
                errand.go_on(f"storing {file.output.path}", content.tell(), file.size)
                yield piece

        with answering(web.Ask("PUT", url, headers, None), errand, body=body) as answer:
            if not 200 <= answer.status < 300:
                problem = refusal(answer, url, self._signed[name])
                raise Final(str(problem)) if isinstance(problem, Absent) else problem
            etag = (answer.getheader("ETag") or "").strip('"')
            opaque = answer.getheader(_ENCRYPTION, "").startswith("aws:kms") or answer.getheader(_OWN_KEY)
        if not etag:
            raise Failing("the store did not say what it stored")
        if not opaque and etag.lower() != file.md5s[number].hex():
            raise Failing("the store has other content than was sent")
        return etag
