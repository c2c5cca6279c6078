"""The short address of `dev`: which requests go to the page, to the API and to the emulator's AWS."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from shardmill.local.front import SIGN_IN, with_front

TOKEN = "secret"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "deployment.json").write_text(json.dumps({"api": "abc"}))
    (tmp_path / "admin-token").write_text(TOKEN + "\n")
    return tmp_path


def ask(
    folder: Path, method: str, path: str, headers: dict[str, str] | None = None, query: bytes = b""
) -> tuple[int, bytes]:
    """The status and the body of the answer."""
    start, body = answer_of(folder, method, path, headers, query)
    return start["status"], body["body"]


def answer_of(
    folder: Path, method: str, path: str, headers: dict[str, str] | None = None, query: bytes = b""
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The start and the body of the answer; an emulator that is asked answers 299 with the path."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 299, "headers": []})
        await send({"type": "http.response.body", "body": scope["path"].encode() + b" " + scope["raw_path"]})

    events: list[Any] = []

    async def send(event: Any) -> None:
        events.append(event)

    sent = {"host": "127.0.0.1:7700"} | (headers or {})
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query,
        "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
    }
    asyncio.run(with_front(app, folder)(scope, None, send))
    return events[0], events[1]


@pytest.mark.parametrize("path", ["/v1/jobs", "/openapi.json", "/awe/job"])
def test_paths_of_the_api_go_to_the_deployed_api(folder: Path, path: str) -> None:
    inner = f"/_aws/execute-api/abc{path}".encode()
    assert ask(folder, "POST", path) == (299, inner + b" " + inner)


@pytest.mark.parametrize(
    ("method", "path", "headers", "query"),
    [
        ("GET", "/", {"authorization": "AWS4-HMAC-SHA256 x"}, b""),
        ("POST", "/", {"x-amz-target": "DynamoDB_20120810.GetItem"}, b""),
        ("GET", "/bucket/key", {}, b"X-Amz-Signature=1"),
        ("GET", "/bucket/key", {}, b""),
        ("GET", "/_aws/execute-api/abc/v1/jobs", {}, b""),
    ],
)
def test_requests_of_aws_clients_go_to_the_emulator(
    folder: Path, method: str, path: str, headers: dict[str, str], query: bytes
) -> None:
    assert ask(folder, method, path, headers, query) == (299, f"{path} {path}".encode())


@pytest.mark.parametrize("query", [b"X-Amz-Signature=1", b""])
def test_a_browser_runs_no_script_in_a_stored_file(folder: Path, query: bytes) -> None:
    start, _ = answer_of(folder, "GET", "/bucket/report.html", query=query)
    assert (b"content-security-policy", b"sandbox") in start["headers"]


def test_the_page_and_its_files_are_served_without_the_emulator(folder: Path) -> None:
    status, page = ask(folder, "GET", "/")
    assert (status, page[:15]) == (200, b"<!doctype html>")
    assert ask(folder, "GET", "/assets/old/core/main.js")[0] == 404


def test_a_new_deployment_is_used_at_once(folder: Path) -> None:
    assert b"abc" in ask(folder, "GET", "/v1/jobs")[1]
    (folder / "deployment.json").write_text(json.dumps({"api": "def"}))
    assert b"def" in ask(folder, "GET", "/v1/jobs")[1]


def test_a_page_of_this_address_gets_the_token(folder: Path) -> None:
    own = {"x-shardmill": "1", "sec-fetch-site": "same-origin"}
    assert ask(folder, "POST", SIGN_IN, own) == (200, b'{"token": "secret"}')


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("GET", {"x-shardmill": "1"}),
        ("OPTIONS", {"x-shardmill": "1"}),
        ("POST", {}),
        ("POST", {"x-shardmill": "1", "host": "evil.example:7700"}),
        ("POST", {"x-shardmill": "1", "sec-fetch-site": "cross-site"}),
        ("POST", {"x-shardmill": "1", "sec-fetch-site": "same-site"}),
    ],
)
def test_other_sites_do_not_get_the_token(folder: Path, method: str, headers: dict[str, str]) -> None:
    status, body = ask(folder, method, SIGN_IN, headers)
    assert (status, TOKEN.encode() in body) == (403, False)


PAGE = "http://127.0.0.1:7700"
REBOUND = {"host": "evil.example:7700"}


@pytest.mark.parametrize(
    ("method", "path", "headers", "query"),
    [
        ("POST", "/", {"origin": "https://evil.example", "x-amz-target": "AmazonSSM.GetParameter"}, b""),
        ("OPTIONS", "/", {"origin": "https://evil.example"}, b""),
        ("POST", "/2015-03-31/functions", {"origin": "null"}, b""),
        ("POST", "/_ministack/reset", {"origin": "http://127.0.0.1:3000"}, b""),
        ("POST", "/_shardmill/save", {"origin": "http://127.0.0.1.evil.example:7700"}, b""),
        ("GET", "/bucket/key", {"origin": "http://evil.example:7700"}, b"X-Amz-Signature=1"),
        ("GET", "/", {"sec-fetch-site": "cross-site"}, b"Action=PurgeQueue"),
        ("GET", "/", {"sec-fetch-site": "cross-site"}, b"%41ction=PurgeQueue"),
        ("PUT", "/bucket/key", {"sec-fetch-site": "same-site"}, b""),
        ("GET", "/bucket/key", REBOUND, b""),
        ("POST", "/", {**REBOUND, "origin": "http://evil.example:7700"}, b""),
        ("GET", "/v1/jobs", REBOUND, b""),
        ("GET", "/", {"host": "a@[b"}, b""),
    ],
)
def test_pages_of_other_sites_get_nothing(
    folder: Path, method: str, path: str, headers: dict[str, str], query: bytes
) -> None:
    """The emulator checks no signatures and allows every origin: they could run programs with its Lambda."""
    status, body = ask(folder, method, path, headers, query)
    assert (status, body[:28]) == (403, b"requests of other web sites,")


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("PUT", {"origin": PAGE, "sec-fetch-site": "same-origin"}),
        ("PUT", {"origin": "http://localhost:7700", "sec-fetch-site": "cross-site"}),  # a file of that page
        ("PUT", {"origin": "http://tunnel:9000", "host": "tunnel:9000"}),
        ("PUT", {"origin": "https://tunnel.example", "sec-fetch-site": "same-origin"}),
        ("GET", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}),
        ("PUT", {"host": "host.docker.internal:7700"}),
        ("PUT", {"host": "[::1]:7700"}),
        ("PUT", {"host": "bucket.localhost:7700"}),
    ],
)
def test_own_pages_links_and_programs_reach_the_emulator(
    folder: Path, method: str, headers: dict[str, str]
) -> None:
    assert ask(folder, method, "/bucket/key", headers, b"X-Amz-Signature=1")[0] == 299


def test_the_start_and_stop_of_the_server_reach_the_emulator(folder: Path) -> None:
    seen: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    asyncio.run(with_front(app, folder)({"type": "lifespan"}, None, None))
    assert seen == ["lifespan"]
