"""Transfer files for a manual worker: presigned URLs from the API, bytes through the S3 client."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from shardmill.model.transfers import part_ranges
from shardmill.model.worker import Lease
from support.scenarios.job_runner import JobRunner


class FileWorker:
    def __init__(self, runner: JobRunner) -> None:
        self.runner = runner
        self.s3 = runner.cloud.clients.s3
        self.bucket = runner.cloud.bucket

    def ask(self, lease: Lease, status: int = 200, *, worker: str = "", **fields: Any) -> Any:
        held = {"taskId": lease.task_id, "attempt": lease.attempt, "run": lease.run}
        body = {"workerId": worker or self.runner.worker.row.id, **held, **fields}
        answer = self.runner.cloud.http("POST", "/v1/work:urls", body)
        assert answer.status == status, answer.json
        return answer.json

    def fetch(self, lease: Lease) -> dict[str, bytes]:
        """The files in a task's working directory before it runs."""
        found: dict[str, bytes] = {}
        for file in self.ask(lease, prepare=True)["prepared"]["files"]:
            data = self.read(file["url"])[file["first"] : file.get("end")]
            name = file.get("into") or file["name"]
            found[name] = found.get(name, b"") + data if file.get("into") else data
        return found

    def store(self, lease: Lease, files: Mapping[str, bytes], *, worker: str = "") -> list[dict[str, Any]]:
        """Upload outputs; return their entries for the report."""
        request = [{"name": name, "size": len(data), "md5s": md5s(data)} for name, data in files.items()]
        for answer in self.ask(lease, store=request, worker=worker)["stored"]:
            assert len(answer["urls"]) == 1
            assert answer["headers"] == [{"content-md5": md5s(files[answer["name"]])[0]}]
            self.s3.put_object(**place(answer["urls"][0]), Body=files[answer["name"]])
        return [
            {"name": name, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for name, data in files.items()
        ]

    def end(self, lease: Lease, files: Mapping[str, bytes], **more: Any) -> None:
        """Upload outputs and report success."""
        self.runner.worker.report([lease], files=self.store(lease, files), **more)

    def read(self, url: str) -> bytes:
        body: bytes = self.s3.get_object(**place(url))["Body"].read()
        return body

    def listed(self, **query: Any) -> list[dict[str, Any]]:
        """The files of the Job, from the API."""
        items: list[dict[str, Any]] = []
        cursor = None
        while True:
            given = {**query, "cursor": cursor} if cursor else query
            text = "&".join(f"{name}={value}" for name, value in given.items())
            answer = self.runner.cloud.http("GET", f"/v1/jobs/orders/t1/files?{text}")
            assert answer.status == 200, answer.json
            items += answer.json["items"]
            cursor = answer.json["cursor"]
            if cursor is None:
                return items


def md5s(data: bytes) -> list[str]:
    pieces = [data[first:end] for first, end in part_ranges(len(data))]
    return [base64.b64encode(hashlib.md5(piece).digest()).decode() for piece in pieces]


def place(url: str) -> dict[str, str]:
    """Bucket and key of a presigned URL; check that it expires within fifteen minutes."""
    parts = urlsplit(url)
    assert parse_qs(parts.query)["X-Amz-Expires"] == ["900"], url
    path = unquote(parts.path).lstrip("/")
    bucket = parts.netloc.split(".")[0]
    if bucket == "s3":
        bucket, _, path = path.partition("/")
    return {"Bucket": bucket, "Key": path}
