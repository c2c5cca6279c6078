"""Makes the request of an http task, in an interpreter of its own, and writes the answer's body to stdout.

It is run by its path with nothing but the standard library. The last line on stderr says what went wrong, the
exit code what to make of it.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import socket
import ssl
import sys
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import SplitResult, quote, urljoin, urlsplit

FAILED, PERMANENT = 1, 42
MAX_REDIRECTS = 10
PORTS = {"http": 80, "https": 443}

_PIECE = 65_536
_TRY_AGAIN = {408, 429}
_REDIRECTS = {301, 302, 303, 307, 308}
_KEEPS_METHOD = {307, 308}
_SECRET_HEADERS = {"authorization", "cookie", "proxy-authorization"}
# Link-local addresses, where clouds keep what a machine knows of itself, its credentials too.
_NEVER = [ipaddress.ip_network(each) for each in ("169.254.0.0/16", "fe80::/10", "fd00:ec2::/32")]
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


class Stopped(Exception):
    """The request came to no good end."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


def allowed(url: str, hosts: Iterable[str]) -> bool:
    """Whether one of `hosts` names the host of an address: `name`, `*.name`, each also with a `:port`."""
    parts = urlsplit(url)
    host, port = _host(parts), parts.port or PORTS.get(parts.scheme)
    return any(_names(urlsplit(f"//{pattern.strip()}"), host, port) for pattern in hosts)


def _names(pattern: SplitResult, host: str, port: int | None) -> bool:
    name = _host(pattern)
    if name.startswith("*."):
        fits = host.endswith(name[1:]) and len(host) >= len(name)
    else:
        fits = bool(name) and host == name
    return fits and pattern.port in (None, port)


def _host(parts: SplitResult) -> str:
    return (parts.hostname or "").lower().rstrip(".")


def forbidden(address: str) -> bool:
    """Whether no request may go to an IP address, however it is written."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    forms: list[ipaddress.IPv4Address | ipaddress.IPv6Address] = [ip]
    if isinstance(ip, ipaddress.IPv6Address):
        forms += [form for form in (ip.ipv4_mapped, ip.sixtofour) if form]
        if ip in _NAT64 or int(ip) < 2**32:
            forms.append(ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF))
    return any(form in network for form in forms for network in _NEVER)


def reach(host: str, port: int, timeout: float | None) -> socket.socket:
    """Connect to the very address that was looked at, so that a name cannot mean another one by then."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for *_, address in found:
        if forbidden(str(address[0])):
            raise Stopped(PERMANENT, f"{host} is {address[0]}, a link-local address: tasks never ask there")
    problem: OSError = OSError(f"{host} has no address")
    for family, kind, protocol, _, address in found:
        connection = socket.socket(family, kind, protocol)
        try:
            connection.settimeout(timeout)
            connection.connect(address)
        except OSError as error:
            connection.close()
            problem = error
        else:
            return connection
    raise problem


class _Plain(http.client.HTTPConnection):
    def connect(self) -> None:
        self.sock = reach(self.host, self.port, self.timeout)


class _Tls(http.client.HTTPSConnection):
    def connect(self) -> None:
        connection = reach(self.host, self.port, self.timeout)
        self.sock = ssl.create_default_context().wrap_socket(connection, server_hostname=self.host)


@dataclass(frozen=True, slots=True)
class Ask:
    """One request of those that a task may lead to."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None

    @property
    def shown(self) -> str:
        """Without its query, which may hold what is nobody's business."""
        return self.url.partition("?")[0].partition("#")[0]

    @property
    def origin(self) -> tuple[str, str, int | None]:
        parts = urlsplit(self.url)
        return parts.scheme, _host(parts), parts.port

    def redirected(self, status: int, location: str) -> Ask:
        """As browsers do: what is secret stays with its host, and most redirects make a GET of a POST."""
        new = replace(self, url=urljoin(self.url, location))
        dropped = set() if new.origin == self.origin else _SECRET_HEADERS
        if status not in _KEEPS_METHOD and self.method not in ("GET", "HEAD"):
            new = replace(new, method="GET", body=None)
            dropped = dropped | {"content-type"}
        kept = {name: value for name, value in self.headers.items() if name.lower() not in dropped}
        return replace(new, headers=kept)


def fetch(request: Mapping[str, Any], out: BinaryIO) -> None:
    """Ask, follow redirects, and write the body of the last answer; raises Stopped."""
    ask = _first(request)
    for redirects in range(MAX_REDIRECTS + 1):
        if urlsplit(ask.url).scheme not in PORTS or not allowed(ask.url, request["allowHosts"]):
            how = "redirected to " if redirects else ""
            raise Stopped(PERMANENT, f"{how}{ask.shown}: no --allow-host names its host")
        with closing(connection_to(ask, request["timeoutSeconds"])) as connection:
            answer = send(connection, ask)
            location = answer.getheader("Location")
            fine = _expected(answer.status, request["expectedStatus"])
            if fine or answer.status not in _REDIRECTS or not location:
                _write(answer, out)
                if not fine:
                    said = f"{ask.method} {ask.shown} answered {answer.status} {answer.reason}"
                    raise Stopped(_code(answer.status), said.rstrip())
                return
            ask = ask.redirected(answer.status, location)
    raise Stopped(PERMANENT, f"{_first(request).shown} redirects more than {MAX_REDIRECTS} times")


def _first(request: Mapping[str, Any]) -> Ask:
    body = request["body"]
    headers = {"User-Agent": "shardmill", **request["headers"]}
    if body is not None and not any(name.lower() == "content-type" for name in headers):
        headers["Content-Type"] = "text/plain; charset=utf-8" if isinstance(body, str) else "application/json"
    text = body if isinstance(body, str) else json.dumps(body)
    return Ask(request["method"], request["url"], headers, None if body is None else text.encode())


def connection_to(ask: Ask, timeout: float) -> http.client.HTTPConnection:
    parts = urlsplit(ask.url)
    kind = _Tls if parts.scheme == "https" else _Plain
    return kind(parts.hostname or "", parts.port or PORTS[parts.scheme], timeout=timeout)


def send(connection: http.client.HTTPConnection, ask: Ask) -> http.client.HTTPResponse:
    parts = urlsplit(ask.url)
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~")
    if parts.query:
        path += "?" + quote(parts.query, safe="/%:@!$&'()*+,;=~?[]")
    headers = {name: value.encode() for name, value in ask.headers.items()}
    connection.request(ask.method, path, ask.body, headers)
    return connection.getresponse()


def _write(answer: http.client.HTTPResponse, out: BinaryIO) -> None:
    while piece := answer.read(_PIECE):
        out.write(piece)
    out.flush()


def _expected(status: int, patterns: Iterable[str]) -> bool:
    return any(pattern in (str(status), f"{status // 100}xx") for pattern in patterns)


def _code(status: int) -> int:
    """Whether an answer that nobody expected may be another one next time."""
    return PERMANENT if 300 <= status < 500 and status not in _TRY_AGAIN else FAILED


def main(path: str) -> int:
    """The exit code."""
    request = json.loads(Path(path).read_text())
    try:
        fetch(request, sys.stdout.buffer)
    except Stopped as stopped:
        code, said = stopped.code, str(stopped)
    except TimeoutError:
        code, said = FAILED, f"no answer within {request['timeoutSeconds']:g} s"
    except (OSError, http.client.HTTPException, ValueError) as error:
        code, said = FAILED, f"{type(error).__name__}: {error}"
    else:
        return 0
    sys.stderr.write(f"{said}\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
