"""Files that come with a Job: uploaded before it is asked for, known by their content, then the Job's own."""

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
    """Where to upload a file; nowhere if the same content is there already. The store checks its checksum."""
    upload = f"{_owner(actor)}-{wanted.sha256}"
    head = mill.files.head(mill.files.own(keys.upload(upload)))
    if head and head.size == wanted.size:
        return Upload(upload=upload, present=True)
    checksum = base64.b64encode(bytes.fromhex(wanted.sha256)).decode()
    url = mill.files.put_url(keys.upload(upload), ChecksumSHA256=checksum)
    return Upload(upload=upload, url=url, headers={"x-amz-checksum-sha256": checksum})


def _owner(actor: Actor) -> str:
    """Nobody meets what another uploaded, whatever it is called."""
    return hashlib.sha256(actor.name.encode()).hexdigest()[:16]


def take(mill: Mill, job: JobRow, files: Sequence[GivenFile], actor: Actor) -> None:
    """Make uploaded files those of a Job that is about to be written; raises if one is not there."""
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


def drop(mill: Mill, job: JobRow) -> None:
    """The Job was not written after all: a rival was."""
    if job.given:
        mill.files.remove(keys.submitted_file(job.id, ""))
