"""Presigned URLs on loopback, an API that issues them, and injected errors."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass, field
from typing import Any

from support.fakes.api import FakeApi, Reply, Request, job_file, page

SIGNATURE = "X-Amz-Signature=s3cret"
OWNER = "0123456789abcdef"


@dataclass
class FakeStore:
    """`replies` replace the regular ones, one per request; an int truncates the body at that byte."""

    api: FakeApi
    url: str
    objects: dict[str, bytes] = field(default_factory=dict)
    replies: list[Reply | int] = field(default_factory=list)
    supports_ranges: bool = True

    def __post_init__(self) -> None:
        self.api.on("POST", "/v1/uploads", self._begin)

    def add(self, name: str, content: bytes, **more: Any) -> dict[str, Any]:
        """Store an object; return its entry as a file of a Job."""
        key = hashlib.sha256(f"{name}{sorted(more.items())}".encode()).hexdigest()
        self.objects[key] = content
        self.api.on("GET", f"/bucket/{key}", self._get)
        return job_file(name, content, self._address(key), **more)

    def list(self, *files: dict[str, Any]) -> None:
        self.api.on("GET", "/v1/jobs/report/t1/files", page(*files))

    @property
    def requests(self) -> list[Request]:
        return [each for each in self.api.requests if each.path.startswith("/bucket/")]

    def _address(self, key: str) -> str:
        return f"{self.url}/bucket/{key}?{SIGNATURE}"

    def _begin(self, request: Request) -> dict[str, Any]:
        sha256 = request.document["sha256"]
        upload = f"{OWNER}-{sha256}"
        if sha256 in self.objects:
            return {"upload": upload, "present": True}
        self.api.on("PUT", f"/bucket/{sha256}", self._put)
        checksum = base64.b64encode(bytes.fromhex(sha256)).decode()
        return {
            "upload": upload,
            "url": self._address(sha256),
            "headers": {"x-amz-checksum-sha256": checksum},
        }

    def _put(self, request: Request) -> Reply:
        if self.replies:
            reply = self.replies.pop(0)
            assert isinstance(reply, Reply)
            return reply
        checksum = base64.b64encode(hashlib.sha256(request.body).digest()).decode()
        if checksum != request.headers.get("x-amz-checksum-sha256"):
            return Reply(b"<Error><Code>BadDigest</Code></Error>", 400)
        self.objects[request.path.removeprefix("/bucket/")] = request.body
        return Reply()

    def _get(self, request: Request) -> Reply:
        reply = self.replies.pop(0) if self.replies else None
        if isinstance(reply, Reply):
            return reply
        content = self.objects[request.path.removeprefix("/bucket/")]
        found = re.fullmatch(r"bytes=(\d+)-", request.headers.get("range", ""))
        if not found or not self.supports_ranges:
            return Reply(content, cut=reply)
        first = int(found[1])
        span = {"content-range": f"bytes {first}-{len(content) - 1}/{len(content)}"}
        return Reply(content[first:], 206, span, cut=reply)
