"""Download the files that a task reads into its work folder, and upload the files that it wrote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from threading import Event
from typing import BinaryIO

from shardmill.model.files import File
from shardmill.model.transfers import Fetch, StoreAnswer, Stored, part_ranges
from shardmill.model.worker import Lease
from shardmill.transfer.download import Download, atomic_file
from shardmill.transfer.exchange import ObjectNotFound, PermanentError, RetryableError
from shardmill.transfer.upload import put
from shardmill.worker.files import safe_paths
from shardmill.worker.files.cache import Cache
from shardmill.worker.files.guarded_exchange import GuardedExchange
from shardmill.worker.files.safe_paths import NO_FILES, FileState, Measured, TransferError
from shardmill.worker.files.transfer_context import PresignedUrls, TransferContext, TransferSettings
from shardmill.worker.transport.base import FileUrls

_BATCH_PARTS = 100
_ENCRYPTION = "x-amz-server-side-encryption"
_CUSTOMER_KEY = f"{_ENCRYPTION}-customer-algorithm"
_DEFAULTS = TransferSettings()


def download_all(
    files: Sequence[Fetch],
    folder: Path,
    *,
    cache: Cache | None,
    allow_hosts: Sequence[str],
    stop: Event,
    progress: Callable[[str], None],
    renew: Callable[[], Sequence[Fetch]] | None = None,
    set_owner: Callable[[Path], None] | None = None,
    settings: TransferSettings = _DEFAULTS,
) -> list[Path]:
    """Download the files into `folder`, except optional ones that do not exist. Raises TransferError.

    `renew` returns the files with new presigned URLs. `set_owner` is called with each file and folder that is
    created, but not with files shared by the cache.
    """
    _check_names(files)
    context = TransferContext(stop, progress, settings)
    urls = {file.name: file.url for file in files}
    presigned = None
    if renew:
        get_new = renew
        presigned = PresignedUrls(
            lambda: urls.update({file.name: file.url for file in get_new()}), settings.now
        )
    paths = []
    for file in files:
        try:
            if file.missing:
                raise ObjectNotFound("the step that produces it stored no such file")
            path = safe_paths.target(folder, file.name, set_owner)
            download = partial(_download, file, urls, context, allow_hosts, None if file.plain else presigned)
            if cache and file.kind == "predata" and cache.key(file):
                cache.get(file, path, download, sleep=context.sleep)
            else:
                with atomic_file(path, mode=0o600) as out:
                    download(out)
                if set_owner:
                    set_owner(path)
        except ObjectNotFound as error:
            if not file.optional:
                raise TransferError(f"{file.kind} {file.name!r} is missing: {error}") from None
        else:
            paths.append(path)
    return paths


def _check_names(files: Sequence[Fetch]) -> None:
    names = [*(file.name for file in files), *{file.into: None for file in files if file.into}]
    duplicates = [name for name, times in Counter(map(PurePosixPath, names)).items() if times > 1]
    if duplicates:
        name = duplicates[0]
        raise TransferError(
            f"two files are named {str(name)!r}: rename one of them; if several tasks produce files of this "
            f"name, use a pattern such as '*/{name.name}'"
        )


def _download(
    file: Fetch,
    urls: dict[str, str],
    context: TransferContext,
    hosts: Sequence[str],
    presigned: PresignedUrls | None,
    out: BinaryIO,
) -> None:
    def report(received: int) -> None:
        context.report(f"downloading {file.name}", received, file.length)

    exchange = GuardedExchange(context, hosts if file.plain else None)
    download = Download(file, out, exchange, progress=report, rewindable=True)

    is_old = presigned.is_old if presigned else None
    context.retry(
        f"cannot download {file.kind} {file.name!r}",
        lambda: download.attempt(urls[file.name], is_old),
        presigned=presigned,
        progress=lambda: download.farthest,
    )


def upload_all(
    lease: Lease,
    outputs: Sequence[File],
    folder: Path,
    file_urls: FileUrls,
    *,
    stop: Event,
    progress: Callable[[str], None],
    inputs: Mapping[str, FileState] = NO_FILES,
    settings: TransferSettings = _DEFAULTS,
) -> list[Stored]:
    """Upload the outputs of a task after checking all of them. Raises TransferError."""
    context = TransferContext(stop, progress, settings)

    def measured() -> Iterator[Measured]:
        for output in safe_paths.select_outputs(outputs, folder, inputs):
            yield safe_paths.measure(
                folder, output, partial(context.check_and_report, f"reading {output.path}")
            )

    stored = []
    for batch in _batches(measured()):
        uploads = _Uploads(lease, file_urls, context, batch)
        for file in batch:
            uploads.send(file, folder)
            stored.append(file.stored)
    return stored


def _batches(files: Iterable[Measured]) -> Iterator[list[Measured]]:
    """Batches small enough to be uploaded before their presigned URLs expire."""
    batch: list[Measured] = []
    for file in files:
        if batch and sum(len(each.md5s) for each in batch) + len(file.md5s) > _BATCH_PARTS:
            yield batch
            batch = []
        batch.append(file)
    if batch:
        yield batch


class _Uploads:
    """A batch of outputs with the presigned URLs of their parts."""

    def __init__(
        self, lease: Lease, file_urls: FileUrls, context: TransferContext, files: Sequence[Measured]
    ) -> None:
        self._lease, self._file_urls, self._context = lease, file_urls, context
        self._answers: dict[str, StoreAnswer] = {}
        context.retry("cannot upload the outputs", partial(self._request_urls, files))
        now = context.settings.now
        self._presigned = {
            file.output.name: PresignedUrls(partial(self._request_urls, [file]), now) for file in files
        }

    def _request_urls(self, files: Sequence[Measured]) -> None:
        requests = [file.request for file in files]
        answers = {answer.name: answer for answer in self._file_urls.store(self._lease, requests)}
        for file in files:
            answer = answers.get(file.output.name)
            if not answer or not len(answer.urls) == len(answer.headers) == len(file.md5s):
                raise PermanentError(f"Shardmill returned no upload URL for {file.output.name!r}")
        self._answers |= answers

    def send(self, file: Measured, folder: Path) -> None:
        """Upload a file part by part, from the start if renewed URLs belong to a new multipart upload."""
        name, failure = file.output.name, f"cannot upload output {file.output.path!r}"
        etags: list[str] = []
        uploads = {self._answers[name].upload_id}
        with safe_paths.open_inside(folder, file.output.path) as content:
            while len(etags) < len(file.md5s):
                upload = self._answers[name].upload_id
                put_part = partial(self._put_part, file, len(etags), content)
                etag = self._context.retry(failure, put_part, presigned=self._presigned[name])
                if self._answers[name].upload_id == upload:
                    etags.append(etag)
                    continue
                etags = [] if etags else [etag]
                uploads.add(self._answers[name].upload_id)
                if len(uploads) > (self._context.settings.backoff.attempts or 0):
                    raise TransferError(
                        f"{failure}: the upload takes longer than its presigned URLs are valid"
                    )
        if upload := self._answers[name].upload_id:
            self._context.retry(failure, partial(self._file_urls.complete, self._lease, name, upload, etags))

    def _put_part(self, file: Measured, number: int, content: BinaryIO) -> str:
        """Upload one part and return its ETag."""
        name, answer = file.output.name, self._answers[file.output.name]
        part = _Part(file, content, *part_ranges(file.size)[number], self._context)
        headers = put(
            GuardedExchange(self._context),
            answer.urls[number],
            answer.headers[number],
            part,
            part.end - part.first,
            self._presigned[name].is_old,
        )
        etag = (headers.get("ETag") or "").strip('"')
        if not etag:
            raise RetryableError("the object store returned no ETag")
        # With KMS or customer keys, the ETag is not the MD5 of the content.
        opaque = (headers.get(_ENCRYPTION) or "").startswith("aws:kms") or headers.get(_CUSTOMER_KEY)
        if not opaque and etag.lower() != file.md5s[number].hex():
            raise RetryableError("the object store received different content than was sent")
        return etag


@dataclass(frozen=True, slots=True)
class _Part:
    """The bytes of a part; they can be read again for a redirected request."""

    file: Measured
    content: BinaryIO
    first: int
    end: int
    context: TransferContext

    def __iter__(self) -> Iterator[bytes]:
        output = self.file.output
        for piece in safe_paths.pieces(self.content, self.first, self.end, output):
            self.context.check_and_report(f"uploading {output.path}", self.content.tell(), self.file.size)
            yield piece
