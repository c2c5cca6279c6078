"""S3: logs in numbered chunks, and presigned addresses for those who have no credentials."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

URL_SECONDS = 900
MOST_CHUNKS = 100
"""Of a log that was followed many small chunks make a page: so many are read at once."""


class Files:
    def __init__(self, client: S3Client, bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    def put_url(self, key: str) -> str:
        return self._client.generate_presigned_url(
            "put_object", Params={"Bucket": self._bucket, "Key": key}, ExpiresIn=URL_SECONDS
        )

    def read_chunks(self, prefix: str, *, offset: int, most: int) -> tuple[bytes, bool] | None:
        """Up to `most` bytes from an offset into the chunks under a prefix, and whether there are more.

        None if there are no chunks.
        """
        sizes = [
            (entry["Key"], entry["Size"])
            for page in self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=prefix
            )
            for entry in page.get("Contents", [])
        ]
        if not sizes:
            return None
        start, total, data, left = 0, sum(size for _, size in sizes), b"", MOST_CHUNKS
        for key, size in sizes:
            first = max(0, offset + len(data) - start)
            if first < size and len(data) < most and left:
                left -= 1
                last = min(size, first + most - len(data)) - 1
                body = self._client.get_object(Bucket=self._bucket, Key=key, Range=f"bytes={first}-{last}")
                data += body["Body"].read()
            start += size
        return data, offset + len(data) < total

    def remove(self, prefix: str, *, most: int) -> bool:
        """Remove up to so many objects under a prefix; whether none is left."""
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix)
        for page in pages:
            keys = [{"Key": entry["Key"]} for entry in page.get("Contents", [])]
            if keys:
                self._client.delete_objects(Bucket=self._bucket, Delete={"Objects": keys})  # type: ignore[typeddict-item]
            most -= len(keys)
            if most <= 0:
                return False
        return True

    def remove_all(self) -> None:
        """Empty the bucket."""
        for page in self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket):
            keys = [{"Key": entry["Key"]} for entry in page.get("Contents", [])]
            if keys:
                self._client.delete_objects(Bucket=self._bucket, Delete={"Objects": keys})  # type: ignore[typeddict-item]
