"""The short address of `dev`: the dashboard and the API, on the port of the emulator's AWS endpoint.

Requests that an AWS client signed go to the emulator. The page is signed in with the admin token, which only
a page of this address gets. Pages of other web sites get nothing: the emulator would let them do everything.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shardmill.local.dev_commands import API_PREFIX, PREFIX
from shardmill.local.web_pages import LOOPBACK_NAMES, is_foreign
from shardmill.web import assets

SIGN_IN = f"{PREFIX}sign-in"
_API = ("/v1/", "/awe/", "/node/")
_API_PATHS = ("/openapi.json", "/awe", "/node")
_FOREIGN = b"requests of other web sites, or for another host than 127.0.0.1 or localhost, are rejected\n"


def with_front(app: Any, folder: Path) -> Any:
    """The ASGI application `app` that also serves the dashboard and the deployed API."""
    deployment = _Deployment(folder)

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        path, headers = scope["path"], _headers(scope)
        if is_foreign(scope["method"], scope.get("query_string", b""), headers):
            await _send(send, 403, _FOREIGN, {"content-type": "text/plain"})
        elif _is_signed(scope, headers):
            await app(scope, receive, _without_scripts(scope, send))
        elif path == SIGN_IN:
            await _send(send, *_signed_in(scope["method"], headers, folder))
        elif path.startswith(_API) or path in _API_PATHS:
            inner = f"{API_PREFIX}{deployment.api_id()}{path}"
            await app({**scope, "path": inner, "raw_path": _raw(scope, inner)}, receive, send)
        elif scope["method"] == "GET" and (path == "/" or path.startswith("/assets/")):
            found = assets.serve(path, headers)
            if found is None:
                await _send(send, 404, b"not found\n", {"content-type": "text/plain"})
            else:
                await _send(
                    send, found.status, found.body, {"content-type": found.content_type, **found.headers}
                )
        else:
            await app(scope, receive, _without_scripts(scope, send))

    return application


class _Deployment:
    """The id of the deployed API, read again when `dev` has deployed."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "deployment.json"
        self._known = (0, "")

    def api_id(self) -> str:
        try:
            changed = self._file.stat().st_mtime_ns
            if changed != self._known[0]:
                self._known = changed, json.loads(self._file.read_bytes()).get("api", "")
        except FileNotFoundError:
            return ""
        return self._known[1]


def _headers(scope: Any) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


def _is_signed(scope: Any, headers: Mapping[str, str]) -> bool:
    """Whether an AWS client sent the request, or it uses a presigned URL."""
    return (
        headers.get("authorization", "").startswith("AWS4-")
        or "x-amz-target" in headers
        or b"X-Amz-" in scope.get("query_string", b"")
    )


def _without_scripts(scope: Any, send: Any) -> Any:
    """Send a stored file so that a browser runs nothing in it, because it has the same origin as the
    dashboard."""
    if scope["path"].startswith((PREFIX, API_PREFIX)):
        return send

    async def send_sandboxed(event: Any) -> None:
        if event["type"] == "http.response.start":
            event = {
                **event,
                "headers": [*event.get("headers", ()), (b"content-security-policy", b"sandbox")],
            }
        await send(event)

    return send_sandboxed


def _raw(scope: Any, path: str) -> bytes:
    raw: bytes = scope.get("raw_path") or b""
    inner = path[: len(path) - len(scope["path"])].encode()
    return inner + (raw or scope["path"].encode())


def _signed_in(method: str, headers: Mapping[str, str], folder: Path) -> tuple[int, bytes, dict[str, str]]:
    """Give the admin token to pages of this address only, not to other sites or host names."""
    host = headers.get("host", "").rpartition(":")[0]
    same_site = headers.get("sec-fetch-site", "same-origin") == "same-origin"
    if method != "POST" or host not in LOOPBACK_NAMES or not same_site or "x-shardmill" not in headers:
        return 403, b"{}", {"content-type": "application/json"}
    token = (folder / "admin-token").read_text().strip()
    body = json.dumps({"token": token}).encode()
    return 200, body, {"content-type": "application/json", "cache-control": "no-store"}


async def _send(send: Any, status: int, body: bytes, headers: Mapping[str, str]) -> None:
    sent = {**headers, "content-length": str(len(body))}
    pairs = [(name.encode(), value.encode()) for name, value in sent.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})
