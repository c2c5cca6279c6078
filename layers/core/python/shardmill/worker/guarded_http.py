"""HTTP requests to addresses that users choose: to allowed hosts only, and never to link-local addresses.

The worker imports this module, and runs it by its path as the program of an http task. It therefore uses
nothing but the standard library. As a program it writes the response body to stdout; the last line on stderr
says what failed, and the exit code whether a retry may help.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import socket
import ssl
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import SplitResult, quote, urljoin, urlsplit

FAILED, PERMANENT = 1, 42
MAX_REDIRECTS = 10
PORTS = {"http": 80, "https": 443}

_PIECE_BYTES = 65_536
_RETRYABLE = {408, 429}
_REDIRECTS = {301, 302, 303, 307, 308}
_KEEPS_METHOD = {307, 308}
_SECRET_HEADERS = {"authorization", "cookie", "proxy-authorization"}
# Link-local addresses, where clouds serve instance metadata, credentials included.
_FORBIDDEN = [ipaddress.ip_network(each) for each in ("169.254.0.0/16", "fe80::/10", "fd00:ec2::/32")]
_NAT64 = ipaddress.ip_network("64:ff9b::/96")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Check = Callable[[str], str]
"""Returns why an IP address is not allowed; empty if it is allowed."""


class RequestFailed(Exception):
    """The request was not allowed or failed; `code` is the exit code for it."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


def allowed(url: str, hosts: Iterable[str]) -> bool:
    """Whether one of `hosts` matches the host of a URL: `name` or `*.name`, with an optional `:port`."""
    parts = urlsplit(url)
    host, port = _host(parts), parts.port or PORTS.get(parts.scheme)
    return any(_matches(urlsplit(f"//{pattern.strip()}"), host, port) for pattern in hosts)


def _matches(pattern: SplitResult, host: str, port: int | None) -> bool:
    name = _host(pattern)
    if name.startswith("*."):
        matched = host.endswith(name[1:]) and len(host) >= len(name)
    else:
        matched = bool(name) and host == name
    return matched and pattern.port in (None, port)


def _host(parts: SplitResult) -> str:
    return (parts.hostname or "").lower().rstrip(".")


def forms_of(address: str) -> list[Address]:
    """An IP address, and the IPv4 addresses that it may embed."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv4Address):
        return [ip]
    forms: list[Address] = [form for form in (ip.ipv4_mapped, ip.sixtofour) if form]
    if ip in _NAT64 or int(ip) < 2**32:
        forms.append(ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF))
    return [ip, *forms]


def forbidden(address: str) -> bool:
    """Whether an IP address is link-local, in any of its notations."""
    return any(form in network for form in forms_of(address) for network in _FORBIDDEN)


def not_link_local(address: str) -> str:
    """The check of requests that workers send."""
    return "requests to link-local addresses are not allowed" if forbidden(address) else ""


def connect(host: str, port: int, timeout: float | None, check: Check = not_link_local) -> socket.socket:
    """Connect to the address that was checked: a second DNS lookup could return another one."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for *_, address in found:
        if reason := check(str(address[0])):
            raise RequestFailed(PERMANENT, f"{host} resolves to {address[0]}: {reason}")
    last_error: OSError = OSError(f"{host} has no address")
    for family, kind, protocol, _, address in found:
        connection = socket.socket(family, kind, protocol)
        try:
            connection.settimeout(timeout)
            connection.connect(address)
        except OSError as error:
            connection.close()
            last_error = error
        else:
            return connection
    raise last_error


class _Plain(http.client.HTTPConnection):
    def __init__(self, host: str, port: int, timeout: float, check: Check) -> None:
        super().__init__(host, port, timeout=timeout)
        self._check = check

    def connect(self) -> None:
        self.sock = connect(self.host, self.port, self.timeout, self._check)


class _Tls(_Plain):
    default_port = PORTS["https"]

    def connect(self) -> None:
        super().connect()
        self.sock = ssl.create_default_context().wrap_socket(self.sock, server_hostname=self.host)


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None

    @property
    def redacted_url(self) -> str:
        """The URL without its query, which may be secret."""
        return self.url.partition("?")[0].partition("#")[0]

    @property
    def origin(self) -> tuple[str, str, int | None]:
        parts = urlsplit(self.url)
        return parts.scheme, _host(parts), parts.port

    def redirected(self, status: int, location: str) -> Request:
        """The next request, as browsers make it: without secrets for another host, and mostly as a GET."""
        new = replace(self, url=urljoin(self.url, location))
        dropped = set() if new.origin == self.origin else _SECRET_HEADERS
        if status not in _KEEPS_METHOD and self.method not in ("GET", "HEAD"):
            new = replace(new, method="GET", body=None)
            dropped = dropped | {"content-type"}
        kept = {name: value for name, value in self.headers.items() if name.lower() not in dropped}
        return replace(new, headers=kept)


def fetch(document: Mapping[str, Any], out: BinaryIO) -> None:
    """Send the request of an http task, follow redirects, and write the last body. Raises RequestFailed."""
    request = _first_request(document)
    for redirects in range(MAX_REDIRECTS + 1):
        if urlsplit(request.url).scheme not in PORTS or not allowed(request.url, document["allowHosts"]):
            how = "redirected to " if redirects else ""
            raise RequestFailed(
                PERMANENT, f"{how}{request.redacted_url}: its host matches no --allow-host of the worker"
            )
        with closing(connection_to(request, document["timeoutSeconds"])) as connection:
            response = send(connection, request)
            location = response.getheader("Location")
            expected = _expected(response.status, document["expectedStatus"])
            if expected or response.status not in _REDIRECTS or not location:
                _write(response, out)
                if not expected:
                    detail = f"{request.method} {request.redacted_url} returned {response.status}"
                    raise RequestFailed(_exit_code(response.status), f"{detail} {response.reason}".rstrip())
                return
            request = request.redirected(response.status, location)
    raise RequestFailed(
        PERMANENT, f"{_first_request(document).redacted_url} redirected more than {MAX_REDIRECTS} times"
    )


def _first_request(document: Mapping[str, Any]) -> Request:
    body = document["body"]
    headers = {"User-Agent": "shardmill", **document["headers"]}
    if body is not None and not any(name.lower() == "content-type" for name in headers):
        headers["Content-Type"] = "text/plain; charset=utf-8" if isinstance(body, str) else "application/json"
    text = body if isinstance(body, str) else json.dumps(body)
    return Request(document["method"], document["url"], headers, None if body is None else text.encode())


def connection_to(
    request: Request, timeout: float, check: Check = not_link_local
) -> http.client.HTTPConnection:
    parts = urlsplit(request.url)
    kind = _Tls if parts.scheme == "https" else _Plain
    return kind(parts.hostname or "", parts.port or PORTS[parts.scheme], timeout, check)


def send(connection: http.client.HTTPConnection, request: Request) -> http.client.HTTPResponse:
    parts = urlsplit(request.url)
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~")
    if parts.query:
        path += "?" + quote(parts.query, safe="/%:@!$&'()*+,;=~?[]")
    headers = {name: value.encode() for name, value in request.headers.items()}
    connection.request(request.method, path, request.body, headers)
    return connection.getresponse()


def _write(response: http.client.HTTPResponse, out: BinaryIO) -> None:
    while piece := response.read(_PIECE_BYTES):
        out.write(piece)
    out.flush()


def _expected(status: int, patterns: Iterable[str]) -> bool:
    return any(pattern in (str(status), f"{status // 100}xx") for pattern in patterns)


def _exit_code(status: int) -> int:
    """Whether a retry may return a different status."""
    return PERMANENT if 300 <= status < 500 and status not in _RETRYABLE else FAILED


def main(path: str) -> int:
    """Run an http task and return the exit code."""
    document = json.loads(Path(path).read_text())
    try:
        fetch(document, sys.stdout.buffer)
    except RequestFailed as error:
        code, reason = error.code, str(error)
    except TimeoutError:
        code, reason = FAILED, f"no response within {document['timeoutSeconds']:g} s"
    except (OSError, http.client.HTTPException, ValueError) as error:
        code, reason = FAILED, f"{type(error).__name__}: {error}"
    else:
        return 0
    sys.stderr.write(f"{reason}\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
