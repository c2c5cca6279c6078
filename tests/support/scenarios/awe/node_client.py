"""Call the node store as AWE clients do: multipart forms, and redirects to presigned addresses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from support.moto.cloud import Cloud
from support.moto.http_api import Answer
from support.scenarios.file_worker import place

BOUNDARY = "-" * 10 + "boundary"
Files = Mapping[str, tuple[str, bytes]]


def multipart(files: Files, fields: Mapping[str, str] | None = None) -> bytes:
    """A form; `files` has a name and content for each field."""
    parts = [
        b'Content-Disposition: form-data; name="%s"\r\n\r\n%s' % (name.encode(), value.encode())
        for name, value in (fields or {}).items()
    ]
    parts += [
        b'Content-Disposition: form-data; name="%s"; filename="%s"\r\n%s\r\n\r\n%s'
        % (name.encode(), filename.encode(), b"Content-Type: application/octet-stream", content)
        for name, (filename, content) in files.items()
    ]
    line = b"--" + BOUNDARY.encode()
    return b"".join(line + b"\r\n" + part + b"\r\n" for part in parts) + line + b"--\r\n"


class NodeClient:
    """`authorization` is the whole header; None sends none."""

    root = "/awe"
    agent = "test"

    def __init__(self, cloud: Cloud, authorization: str | None = "") -> None:
        self.cloud = cloud
        self.authorization = f"OAuth {cloud.token}" if authorization == "" else authorization

    def send(self, method: str, path: str, files: Files | None = None, **fields: str) -> Answer:
        headers = {"Authorization": self.authorization} if self.authorization else {}
        headers["User-Agent"] = self.agent
        body = None
        if files is not None or fields:
            body = multipart(files or {}, fields)
            headers["Content-Type"] = f"multipart/form-data; boundary={BOUNDARY}"
        return self.cloud.http(method, f"{self.root}/node{path}", body, token=None, headers=headers)

    def data(self, method: str, path: str, files: Files | None = None, **fields: str) -> Any:
        answer = self.send(method, path, files, **fields)
        assert (answer.status, answer.json["status"], answer.json["error"]) == (200, 200, None), answer
        return answer.json["data"]

    def error(self, method: str, path: str, files: Files | None = None, **fields: str) -> tuple[int, str]:
        answer = self.send(method, path, files, **fields)
        assert answer.json["status"] == answer.status, answer
        assert answer.json["data"] is None, answer
        return answer.status, "; ".join(answer.json["error"])

    def upload(self, content: bytes, name: str = "reads.fna", **attributes: Any) -> Any:
        """The document of a new node."""
        files = {"upload": (name, content)}
        if attributes:
            files["attributes"] = ("attr.json", json.dumps(attributes).encode())
        return self.data("POST", "", files)

    def download(self, node_id: str, query: str = "") -> bytes:
        answer = self.send("GET", f"/{node_id}?download{query}")
        assert answer.status == 302, answer
        body: bytes = self.cloud.clients.s3.get_object(**place(answer.headers["location"]))["Body"].read()
        return body
