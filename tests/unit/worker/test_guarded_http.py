"""http tasks: requests, responses, allowed hosts and redirects, against servers on loopback."""

import json
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from shardmill.model.worker import Result
from shardmill.worker import guarded_http
from shardmill.worker.task.execute import Runtime, execute
from support.fakes.leases import a_lease


@dataclass
class Server:
    """Records requests, and returns the response set for the path: (status, headers, body)."""

    responses: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)
    requests: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    port: int = 0
    http_server: Any = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def serving() -> Iterator[Server]:
    fake = Server()

    class Handler(BaseHTTPRequestHandler):
        def _respond(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            fake.requests.append((self.command, self.path, headers, body))
            path = self.path.partition("?")[0]
            if path == "/slow":
                time.sleep(30)
            status, more, content = fake.responses.get(path, (200, {}, b"fine"))
            self.send_response(status)
            for name, value in more.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_DELETE = _respond

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing, to keep the output of tests clean."""

    http_server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http_server.daemon_threads = True
    http_server.handle_error = lambda *_: None  # type: ignore[method-assign,assignment]  # clients may disconnect
    fake.http_server, fake.port = http_server, http_server.server_port
    threading.Thread(target=http_server.serve_forever, args=(0.02,), daemon=True).start()
    yield fake
    http_server.shutdown()
    http_server.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as fake:
        yield fake


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    return Runtime(tmp_path / "work", kill_seconds=0.3, allow_hosts=("127.0.0.1",))


def request(content: Any, runtime: Runtime, **more: Any) -> Result:
    return execute(a_lease("http", content, **more), runtime, threading.Event())


# Requests and responses


def test_a_string_is_the_url_of_a_get_request(server: Server, runtime: Runtime) -> None:
    result = request(f"{server.url}/a/b c?x=ü&y=1", runtime)
    assert (result.outcome, result.stdout, result.output) == ("success", "fine", None)
    ((method, path, headers, body),) = server.requests
    assert (method, path, body) == ("GET", "/a/b%20c?x=%C3%BC&y=1", b"")
    assert headers["host"] == f"127.0.0.1:{server.port}"


def test_a_body_is_sent_as_json_and_a_json_response_is_the_output(server: Server, runtime: Runtime) -> None:
    server.responses["/orders"] = (201, {}, b'{"id": 7}')
    content = {
        "method": "post",
        "url": f"{server.url}/orders",
        "headers": {"Authorization": "Bearer t\u00f6ken"},
        "body": {"day": "2020-01-21", "n": [1]},
        "expectedStatus": 201,
    }
    result = request(content, runtime)
    assert (result.outcome, result.stdout, result.output) == ("success", '{"id": 7}', {"id": 7})
    ((method, _, headers, body),) = server.requests
    assert (method, json.loads(body)) == ("POST", {"day": "2020-01-21", "n": [1]})
    assert headers["content-type"] == "application/json"
    assert headers["authorization"].encode("latin-1").decode() == "Bearer töken"


def test_a_string_body_is_sent_unchanged(server: Server, runtime: Runtime) -> None:
    request({"method": "PUT", "url": server.url, "body": "a=ü", "headers": {"content-type": "x/y"}}, runtime)
    ((_, path, headers, body),) = server.requests
    assert (path, headers["content-type"], body) == ("/", "x/y", "a=ü".encode())


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[1, NaN]", b"[" * 50_000, b'"' + b"x" * 70_000 + b'"', b'"\\ud800"']
)
def test_a_response_that_is_not_small_json_is_not_an_output(
    server: Server, runtime: Runtime, body: bytes
) -> None:
    server.responses["/"] = (200, {}, body)
    result = request(f"{server.url}/", runtime)
    assert (result.outcome, result.output) == ("success", None)


@pytest.mark.parametrize(
    ("status", "expected", "outcome"),
    [
        (204, "2xx", "success"),
        (404, [200, 404], "success"),
        (302, 302, "success"),
        (200, 201, "failed"),
        (400, "2xx", "failed-permanent"),
        (404, "2xx", "failed-permanent"),
        (304, "2xx", "failed-permanent"),
        (408, "2xx", "failed"),
        (429, "2xx", "failed"),
        (500, "2xx", "failed"),
        (503, "2xx", "failed"),
    ],
)
def test_the_status_decides_the_outcome(
    server: Server, runtime: Runtime, status: int, expected: Any, outcome: str
) -> None:
    server.responses["/x"] = (status, {"Location": "/elsewhere"} if status == 302 else {}, b"")
    result = request({"url": f"{server.url}/x?key=s3cret", "expectedStatus": expected}, runtime)
    assert result.outcome == outcome
    if outcome != "success":
        assert (result.reason or "").startswith(f"GET {server.url}/x returned {status}")
        assert "s3cret" not in (result.reason or "")


def test_the_body_of_an_error_response_is_in_stdout(server: Server, runtime: Runtime) -> None:
    server.responses["/"] = (422, {}, b'{"code": "bad-day"}')
    result = request(f"{server.url}/", runtime)
    assert (result.outcome, result.stdout, result.output) == ("failed-permanent", '{"code": "bad-day"}', None)


def test_an_unreachable_host_fails_the_task(runtime: Runtime) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        result = request(f"http://127.0.0.1:{free.getsockname()[1]}/", runtime)
    assert result.outcome == "failed"
    assert "refused" in (result.reason or "")


def test_an_unknown_host_fails_the_task(runtime: Runtime) -> None:
    result = request("http://nowhere.invalid/", replace(runtime, allow_hosts=("*.invalid",)))
    assert result.outcome == "failed"


def test_a_slow_response_times_out(server: Server, runtime: Runtime) -> None:
    result = request(f"{server.url}/slow", runtime, timeoutSeconds=1)
    assert result.outcome == "failed"
    assert result.reason in ("timed-out", "no response within 1 s")


def test_a_stopped_request_is_discarded(server: Server, runtime: Runtime) -> None:
    stop = threading.Event()

    def stop_it() -> None:
        while not server.requests:
            time.sleep(0.02)
        stop.set()

    threading.Thread(target=stop_it, daemon=True).start()
    result = execute(a_lease("http", f"{server.url}/slow"), runtime, stop)
    assert result.reason == "discarded"


@pytest.mark.skipif(not shutil.which("openssl"), reason="no openssl to make a certificate with")
def test_tls_certificates_are_verified(
    tmp_path: Path, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    make = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    name = ["-addext", "subjectAltName=DNS:localhost"]
    subprocess.run(
        [*make.split(), *name, "-out", certificate, "-keyout", key],
        check=True,
        capture_output=True,
        timeout=50,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with serving() as server:
        server.http_server.socket = context.wrap_socket(server.http_server.socket, server_side=True)
        runtime = replace(runtime, allow_hosts=("localhost",))
        refused = request(f"https://localhost:{server.port}/", runtime)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        trusted = request(f"https://localhost:{server.port}/", runtime)
    assert (refused.outcome, trusted.outcome, trusted.stdout) == ("failed", "success", "fine")
    assert "CERTIFICATE_VERIFY_FAILED" in (refused.reason or "")


# Allowed hosts


def test_without_an_allow_list_no_request_is_sent(server: Server, runtime: Runtime) -> None:
    result = request(server.url, replace(runtime, allow_hosts=()))
    assert result.outcome == "rejected"
    assert "this worker may not send requests to 127.0.0.1: start a worker with --allow-host 127.0.0.1" in (
        result.reason or ""
    )
    assert server.requests == []


@pytest.mark.parametrize(
    ("url", "hosts", "expected"),
    [
        ("http://a.example.com/", ["a.example.com"], True),
        ("http://A.Example.com./", ["a.example.COM"], True),
        ("https://a.example.com:8443/", ["a.example.com"], True),
        ("https://a.example.com:8443/", ["a.example.com:8443"], True),
        ("https://a.example.com/", ["a.example.com:443"], True),
        ("http://a.example.com/", ["a.example.com:443"], False),
        ("http://a.example.com/", ["*.example.com"], True),
        ("http://a.b.example.com/", ["*.example.com"], True),
        ("http://example.com/", ["*.example.com"], False),
        ("http://evilexample.com/", ["*.example.com", "example.com"], False),
        ("http://a.example.com.evil/", ["a.example.com", "*.example.com"], False),
        ("http://a.example.com@evil/", ["a.example.com"], False),
        ("http://[::1]:80/", ["[::1]"], True),
        ("http://a/", ["", " ", "*."], False),
    ],
)
def test_the_allow_list_matches_host_and_port(url: str, hosts: list[str], expected: bool) -> None:
    assert guarded_http.allowed(url, hosts) is expected


@pytest.mark.parametrize(
    "address",
    [
        *("169.254.169.254", "169.254.170.2", "fe80::1", "fe80::1%eth0", "fd00:ec2::254"),
        *("::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "::a9fe:a9fe"),
    ],
)
def test_metadata_addresses_are_forbidden(address: str) -> None:
    assert guarded_http.forbidden(address)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "10.0.0.1", "8.8.8.8", "2001:db8::1", "169.253.1.1"])
def test_other_addresses_are_allowed(address: str) -> None:
    assert not guarded_http.forbidden(address)


@pytest.mark.parametrize("host", ["169.254.169.254", "2852039166", "0xa9fea9fe", "[::ffff:a9fe:a9fe]"])
def test_a_link_local_host_is_rejected_even_if_allowed(runtime: Runtime, host: str) -> None:
    result = request(f"http://{host}/latest/meta-data/", replace(runtime, allow_hosts=(host,)))
    assert result.outcome == "failed-permanent"
    assert "link-local" in (result.reason or "")


def test_a_name_that_resolves_to_a_link_local_address_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, 80)) for ip in ("8.8.8.8", "169.254.169.254")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    with pytest.raises(guarded_http.RequestFailed, match="link-local"):
        guarded_http.connect("metadata.example.com", 80, 1)


# Redirects


def test_redirects_are_followed_on_allowed_hosts(server: Server, runtime: Runtime) -> None:
    server.responses |= {
        "/post": (303, {"Location": "/get"}, b""),
        "/keep": (307, {"Location": "/end"}, b""),
        "/get": (301, {"Location": f"{server.url}/end"}, b""),
    }
    assert request({"method": "POST", "url": f"{server.url}/post", "body": {}}, runtime).stdout == "fine"
    assert request({"method": "POST", "url": f"{server.url}/keep", "body": "b"}, runtime).stdout == "fine"
    assert [(method, path, body) for method, path, _, body in server.requests] == [
        ("POST", "/post", b"{}"),
        ("GET", "/get", b""),
        ("GET", "/end", b""),
        ("POST", "/keep", b"b"),
        ("POST", "/end", b"b"),
    ]


@pytest.mark.parametrize(
    "target", ["http://localhost:{port}/", "http://169.254.169.254/", "file:///etc/passwd"]
)
def test_redirects_to_other_hosts_are_rejected(server: Server, runtime: Runtime, target: str) -> None:
    server.responses["/go"] = (302, {"Location": target.format(port=server.port)}, b"")
    result = request(f"{server.url}/go", runtime)
    assert result.outcome == "failed-permanent"
    assert "its host matches no --allow-host of the worker" in (result.reason or "")
    assert len(server.requests) == 1


def test_credentials_are_not_sent_to_another_host(server: Server, runtime: Runtime) -> None:
    server.responses["/go"] = (302, {"Location": f"http://localhost:{server.port}/there"}, b"")
    content = {"url": f"{server.url}/go", "headers": {"Authorization": "s3cret", "X-Day": "1"}}
    result = request(content, replace(runtime, allow_hosts=("127.0.0.1", "localhost")))
    assert result.outcome == "success", result.reason
    first, second = [headers for _, _, headers, _ in server.requests]
    assert (first["authorization"], first["x-day"]) == ("s3cret", "1")
    assert ("authorization" in second, second["x-day"]) == (False, "1")


def test_a_redirect_loop_fails_the_task(server: Server, runtime: Runtime) -> None:
    server.responses["/go"] = (302, {"Location": "/go?key=s3cret"}, b"")
    server.responses["/go?key=s3cret"] = server.responses["/go"]
    result = request(f"{server.url}/go?key=s3cret", runtime)
    assert result.outcome == "failed-permanent"
    assert result.reason == f"{server.url}/go redirected more than 10 times"
