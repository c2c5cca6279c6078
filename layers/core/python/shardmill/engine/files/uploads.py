"""Files submitted with a Job: uploaded before the request, addressed by content, then copied to the Job.

The copy is made after the Job's row is written, not by the request: large files take too long for it.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence

from shardmill.engine.errors import RequestInvalid
from shardmill.engine.files import join, keys
from shardmill.engine.mill import Mill
from shardmill.model.actor import Actor
from shardmill.model.fault import Fault, fault
from shardmill.model.request import GivenFile
from shardmill.model.transfers import Upload, UploadRequest
from shardmill.store.rows import JobRow

REUSED_MS = 6 * 86_400_000
"""The age up to which an upload is used again: a day less than the bucket keeps it."""


class UploadExpired(Exception):
    """An upload was deleted before it was copied to its Job."""


def begin(mill: Mill, wanted: UploadRequest, actor: Actor, now: int) -> Upload:
    """A presigned URL to upload a file; none if the content is present. S3 verifies the checksum."""
    upload = f"{_owner(actor)}-{wanted.sha256}"
    head = mill.files.head(mill.files.own(keys.upload(upload)))
    if head and head.size == wanted.size and now - head.modified < REUSED_MS:
        return Upload(upload=upload, present=True)
    checksum = base64.b64encode(bytes.fromhex(wanted.sha256)).decode()
    url = mill.files.put_url(keys.upload(upload), ChecksumSHA256=checksum)
    return Upload(upload=upload, url=url, headers={"x-amz-checksum-sha256": checksum})


def _owner(actor: Actor) -> str:
    """A prefix for the uploads of one caller, so that no caller can use another's upload."""
    return hashlib.sha256(actor.name.encode()).hexdigest()[:16]


def check(mill: Mill, files: Sequence[GivenFile], actor: Actor) -> None:
    """Raise RequestInvalid if an upload is missing."""
    faults = list(_faults(mill, files, actor))
    if faults:
        raise RequestInvalid("the JobRequest is not valid", faults=[each.model_dump() for each in faults])


def copy_to_job(mill: Mill, job: JobRow) -> None:
    """Copy the uploads of a Job to its own files. Raises UploadExpired if one no longer exists. Idempotent.

    Files that are present are not copied again, so that a call that is interrupted makes progress.
    """
    present = set(mill.files.keys(keys.submitted_file(job.id, "")))
    for file in job.request["files"]:
        target = keys.submitted_file(job.id, file["name"])
        if target not in present and not _copy(mill, keys.upload(file["upload"]), file["size"], target):
            raise UploadExpired(f"the upload of {file['name']!r} expired before it was copied")
    if not mill.jobs.note_files_copied(job.id):
        mill.files.remove(keys.submitted_file(job.id, ""))  # a deletion may have been faster


def _copy(mill: Mill, source: str, size: int, target: str) -> bool:
    """Copy an object, in parts if it is large; False if it does not exist."""
    if size <= join.MAX_COPY:
        return mill.files.copy(source, target)
    place = mill.files.own(source)
    if not mill.files.head(place):
        return False
    join.write_pieces(mill, target, [(place, 0, size)])
    return True


def _faults(mill: Mill, files: Sequence[GivenFile], actor: Actor) -> Iterator[Fault]:
    for at, file in enumerate(files):
        own = file.upload.startswith(f"{_owner(actor)}-")
        head = mill.files.head(mill.files.own(keys.upload(file.upload))) if own else None
        if not head:
            text = "upload not found or expired; upload the file first"
            yield fault(("files", at, "upload"), "unknown-upload", text)
        elif head.size != file.size:
            yield fault(("files", at, "size"), "bad-value", f"the upload has {head.size} bytes")
