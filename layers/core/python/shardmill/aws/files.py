"""S3: objects, logs in numbered chunks, and presigned URLs for workers and clients without credentials."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from botocore.exceptions import ClientError, ParamValidationError

from shardmill.model.errors import Transient

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

URL_SECONDS = 900
MOST_MEASURED = 100_000
"""Maximum number of objects whose sizes are added up; a thousand take one call."""
MOST_CHUNKS = 100
"""How many chunks of a log one call reads: a log that was followed live has many small ones."""

_ABSENT = {"404", "NoSuchKey", "NotFound", "NoSuchBucket"}
_CHANGED = {"412", "PreconditionFailed"}
_REFUSED = {"403", "AccessDenied", "AllAccessDisabled", "301", "PermanentRedirect", "InvalidObjectState"}
_BAD_PARTS = {"NoSuchUpload", "InvalidPart", "InvalidPartOrder", "EntityTooSmall"}


class Place(NamedTuple):
    """The bucket and key of an object."""

    bucket: str
    key: str


class Head(NamedTuple):
    size: int
    etag: str
    modified: int
    """When it was written, in milliseconds."""
    labels: Mapping[str, str] = MappingProxyType({})
    """Its user-defined metadata."""


class ObjectChanged(Exception):
    """The object is no longer the version that was expected."""


class ObjectsKept(Transient):
    """S3 did not delete some objects; retry."""


class ObjectRefused(Exception):
    """S3 rejected a call for an object; retrying does not help."""


@contextmanager
def _s3_errors(place: Place) -> Iterator[None]:
    try:
        yield
    except ParamValidationError as error:
        raise ObjectRefused(f"{place.bucket!r} is not a valid bucket name") from error
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code in _CHANGED:
            raise ObjectChanged(f"{place.key} changed since it was listed") from error
        if code in _REFUSED:
            raise ObjectRefused(
                f"s3://{place.bucket}/{place.key} cannot be read ({code}): the bucket must be one of the "
                "stack's DataBuckets, in its region, and must allow access to Shardmill's role"
            ) from error
        raise


class Files:
    def __init__(self, client: S3Client, bucket: str) -> None:
        self._client = client
        self.bucket = bucket

    def own(self, key: str) -> Place:
        return Place(self.bucket, key)

    def get_url(self, place: Place) -> str:
        return self._sign("get_object", place)

    def put_url(self, key: str, **checked: Any) -> str:
        """Presign a PUT; `checked` are headers that S3 verifies, such as ContentMD5, and Metadata."""
        return self._sign("put_object", self.own(key), **checked)

    def part_url(self, key: str, upload_id: str, number: int, **checked: str) -> str:
        return self._sign("upload_part", self.own(key), UploadId=upload_id, PartNumber=number, **checked)

    def _sign(self, operation: str, place: Place, **more: Any) -> str:
        params = {"Bucket": place.bucket, "Key": place.key, **more}
        with _s3_errors(place):
            return self._client.generate_presigned_url(operation, Params=params, ExpiresIn=URL_SECONDS)

    def begin_parts(self, key: str) -> str:
        """Return the id of a multipart upload: the unfinished one of this key, or a new one."""
        listed = self._client.list_multipart_uploads(Bucket=self.bucket, Prefix=key)
        known = [each["UploadId"] for each in listed.get("Uploads", []) if each["Key"] == key]
        return (
            known[0]
            if known
            else self._client.create_multipart_upload(Bucket=self.bucket, Key=key)["UploadId"]
        )

    def join_parts(self, key: str, upload_id: str, etags: Sequence[str]) -> None:
        """Complete a multipart upload. Idempotent."""
        parts: Any = [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(etags, 1)]
        try:
            self._client.complete_multipart_upload(
                Bucket=self.bucket, Key=key, UploadId=upload_id, MultipartUpload={"Parts": parts}
            )
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code == "NoSuchUpload" and self.head(self.own(key)):
                return
            if code in _BAD_PARTS:
                raise ObjectRefused(f"the parts of {key} cannot be joined ({code})") from error
            raise

    def head(self, place: Place) -> Head | None:
        try:
            with _s3_errors(place):
                found = self._client.head_object(Bucket=place.bucket, Key=place.key)
        except ClientError as error:
            if error.response["Error"]["Code"] in _ABSENT:
                return None
            raise
        written = round(found["LastModified"].timestamp() * 1000)
        return Head(found["ContentLength"], found["ETag"], written, found.get("Metadata", {}))

    def read(self, place: Place, first: int, length: int, etag: str = "") -> bytes:
        """Read a range of an object; raise ObjectChanged if it does not have the given ETag."""
        only: Mapping[str, Any] = {"IfMatch": etag} if etag else {}
        with _s3_errors(place):
            found = self._client.get_object(
                Bucket=place.bucket, Key=place.key, Range=f"bytes={first}-{first + length - 1}", **only
            )
        return found["Body"].read()

    def write(self, key: str, data: bytes, labels: Mapping[str, str] | None = None) -> None:
        """Write an object; `labels`: its user-defined metadata, in ASCII."""
        more: Any = {"Metadata": dict(labels)} if labels else {}
        self._client.put_object(Bucket=self.bucket, Key=key, Body=data, **more)

    def begin_join(self, key: str) -> str:
        return self._client.create_multipart_upload(Bucket=self.bucket, Key=key)["UploadId"]

    def add_part(self, key: str, upload_id: str, number: int, data: bytes) -> str:
        """Upload a part of a multipart upload; return its ETag."""
        answer = self._client.upload_part(
            Bucket=self.bucket, Key=key, UploadId=upload_id, PartNumber=number, Body=data
        )
        return answer["ETag"]

    def copy_part(self, key: str, upload_id: str, number: int, source: Place, first: int, end: int) -> str:
        """Copy the bytes [first, end) of an object as a part of a multipart upload; return its ETag."""
        answer = self._client.upload_part_copy(
            Bucket=self.bucket,
            Key=key,
            UploadId=upload_id,
            PartNumber=number,
            CopySource={"Bucket": source.bucket, "Key": source.key},
            CopySourceRange=f"bytes={first}-{end - 1}",
        )
        return answer["CopyPartResult"]["ETag"]

    def copy(self, source: str, target: str) -> bool:
        """Copy an object within the bucket, on the server side; False if there is no such object."""
        try:
            self._client.copy_object(
                Bucket=self.bucket, Key=target, CopySource={"Bucket": self.bucket, "Key": source}
            )
        except ClientError as error:
            if error.response["Error"]["Code"] in _ABSENT:
                return False
            raise
        return True

    def relabel(self, key: str, labels: Mapping[str, str], etag: str) -> bool:
        """Replace the user-defined metadata of an object; False unless it has the given ETag."""
        try:
            self._client.copy_object(
                Bucket=self.bucket,
                Key=key,
                CopySource={"Bucket": self.bucket, "Key": key},
                CopySourceIfMatch=etag,
                MetadataDirective="REPLACE",
                Metadata=dict(labels),
            )
        except ClientError as error:
            if error.response["Error"]["Code"] in (*_ABSENT, "PreconditionFailed"):
                return False
            raise
        return True

    def keys(self, prefix: str) -> list[str]:
        """Return the keys under a prefix, at most a thousand."""
        listed = self._client.list_objects_v2(Bucket=self.bucket, Prefix=prefix)
        return [entry["Key"] for entry in listed.get("Contents", [])]

    def stored_bytes(self, prefix: str) -> int:
        """Return the total size of the objects under a prefix, limited to the first MOST_MEASURED objects."""
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket, Prefix=prefix, PaginationConfig={"MaxItems": MOST_MEASURED}
        )
        return sum(entry["Size"] for page in pages for entry in page.get("Contents", []))

    def read_chunks(self, prefix: str, *, offset: int, most: int) -> tuple[bytes, bool] | None:
        """Read up to `most` bytes from an offset into the chunks under a prefix; also whether more follow.

        Return None if there are no chunks.
        """
        sizes = self._chunks(prefix)
        if not sizes:
            return None
        start, total, data, left = 0, sum(size for _, size in sizes), b"", MOST_CHUNKS
        for key, size in sizes:
            first = max(0, offset + len(data) - start)
            if first < size and len(data) < most and left:
                left -= 1
                data += self.read(self.own(key), first, min(size - first, most - len(data)))
            start += size
        return data, offset + len(data) < total

    def read_end(self, prefix: str, *, most: int) -> bytes | None:
        """Read up to the last `most` bytes of the chunks under a prefix; None if there are no chunks."""
        sizes = self._chunks(prefix)
        if not sizes:
            return None
        data = b""
        for key, size in sizes[: -MOST_CHUNKS - 1 : -1]:
            if length := min(size, most - len(data)):
                data = self.read(self.own(key), size - length, length) + data
        return data

    def _chunks(self, prefix: str) -> list[tuple[str, int]]:
        """The keys under a prefix in their order, each with the size of its object."""
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
        return [(entry["Key"], entry["Size"]) for page in pages for entry in page.get("Contents", [])]

    def deny_writes(self) -> bool:
        """Make S3 reject new objects, from roles, workers and presigned URLs alike. Idempotent.

        False if the bucket does not exist.
        """
        policy: dict[str, Any] = {"Version": "2012-10-17", "Statement": []}
        try:
            policy = json.loads(self._client.get_bucket_policy(Bucket=self.bucket)["Policy"])
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code == "NoSuchBucket":
                return False
            if code != "NoSuchBucketPolicy":
                raise
        added = {
            "Sid": "NoMoreObjects",
            "Effect": "Deny",
            "Principal": "*",
            "Action": "s3:PutObject",  # parts and copies need it, too
            "Resource": f"arn:{self._client.meta.partition}:s3:::{self.bucket}/*",
        }
        policy["Statement"] = [each for each in policy["Statement"] if each.get("Sid") != added["Sid"]]
        policy["Statement"].append(added)
        self._client.put_bucket_policy(Bucket=self.bucket, Policy=json.dumps(policy))
        return True

    def remove(self, prefix: str, *, most: int | None = None) -> bool:
        """Delete objects under a prefix, about `most` of them; return whether all are deleted."""
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
        removed = 0
        for page in pages:
            keys: Any = [{"Key": entry["Key"]} for entry in page.get("Contents", [])]
            if keys:
                self._delete(keys)
            removed += len(keys)
            if most is not None and removed >= most:
                return False
        return True

    def _delete(self, keys: Any) -> None:
        """Delete objects. A call that fails for some of them succeeds as a whole and lists them."""
        answer = self._client.delete_objects(Bucket=self.bucket, Delete={"Objects": keys, "Quiet": True})
        if errors := answer.get("Errors"):
            first = errors[0]
            raise ObjectsKept(
                f"{len(errors)} objects were not deleted, such as {first.get('Key')}: "
                f"{first.get('Code')} {first.get('Message', '')}"
            )
