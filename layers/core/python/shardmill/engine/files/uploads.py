"""Files submitted with a Job: uploaded before the request, addressed by content, then copied to the Job."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence

from shardmill.engine.errors import RequestInvalid
from shardmill.engine.files import keys
from shardmill.engine.mill import Mill
from shardmill.model.actor import Actor
from shardmill.model.fault import Fault, fault
from shardmill.model.job import GivenFile
from shardmill.model.transfers import Upload, UploadRequest
from shardmill.store.rows import JobRow


def begin(mill: Mill, wanted: UploadRequest, actor: Actor) -> Upload:
    """A presigned URL to upload a file; none if the content is present. S3 verifies the checksum."""
    upload = f"{_owner(actor)}-{wanted.sha256}"
    head = mill.files.head(mill.files.own(keys.upload(upload)))
    if head and head.size == wanted.size:
        return Upload(upload=upload, present=True)
    checksum = base64.b64encode(bytes.fromhex(wanted.sha256)).decode()
    url = mill.files.put_url(keys.upload(upload), ChecksumSHA256=checksum)
    return Upload(upload=upload, url=url, headers={"x-amz-checksum-sha256": checksum})


def _owner(actor: Actor) -> str:
    """A prefix for the uploads of one caller, so that no caller can use another's upload."""
    return hashlib.sha256(actor.name.encode()).hexdigest()[:16]


def claim(mill: Mill, job: JobRow, files: Sequence[GivenFile], actor: Actor) -> None:
    """Copy uploads to a Job before its row is written. Raises RequestInvalid if an upload is missing."""
    faults = list(_faults(mill, files, actor))
    if faults:
        raise RequestInvalid("the JobRequest is not valid", faults=[each.model_dump() for each in faults])
    for file in files:
        mill.files.copy(keys.upload(file.upload), keys.submitted_file(job.id, file.name))


def _faults(mill: Mill, files: Sequence[GivenFile], actor: Actor) -> Iterator[Fault]:
    for at, file in enumerate(files):
        own = file.upload.startswith(f"{_owner(actor)}-")
        head = mill.files.head(mill.files.own(keys.upload(file.upload))) if own else None
        if not head:
            text = "upload not found or expired; upload the file first"
            yield fault(("files", at, "upload"), "unknown-upload", text)
        elif head.size != file.size:
            yield fault(("files", at, "size"), "bad-value", f"the upload has {head.size} bytes")


def discard(mill: Mill, job: JobRow) -> None:
    """Delete the files of a Job whose row was not written because a concurrent request won."""
    if job.submitted_files:
        mill.files.remove(keys.submitted_file(job.id, ""))
