"""Send a notification to a webhook: one POST, without redirects, never to a link-local address."""

from __future__ import annotations

import http.client
import ipaddress
from collections.abc import Mapping
from contextlib import closing
from urllib.parse import urlsplit

from shardmill.engine.notify import NotDelivered
from shardmill.worker.guarded_http import Request, RequestFailed, connection_to, send

TIMEOUT_SECONDS = 10.0


def post(url: str, headers: Mapping[str, str], body: bytes, *, loopback: bool) -> None:
    """Raises NotDelivered unless the receiver returns 2xx; `loopback`: it may be on this machine."""
    host = urlsplit(url).hostname
    request = Request("POST", url, headers, body)
    try:
        with closing(connection_to(request, TIMEOUT_SECONDS)) as connection:
            connection.connect()
            if not loopback and _is_loopback(connection.sock.getpeername()[0]):
                raise NotDelivered(
                    f"{host} is a loopback address, which the stack parameter NotifyLoopback does not allow"
                )
            response = send(connection, request)
    except TimeoutError as error:
        raise NotDelivered(f"{host} did not respond within {TIMEOUT_SECONDS:g} s") from error
    except (RequestFailed, OSError, http.client.HTTPException, ValueError) as error:
        raise NotDelivered(f"cannot send to {host}: {type(error).__name__}: {error}") from error
    if not 200 <= response.status < 300:
        raise NotDelivered(f"{host} returned {response.status} {response.reason}".rstrip())


def _is_loopback(address: str) -> bool:
    ip = ipaddress.ip_address(address.partition("%")[0])
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return (mapped or ip).is_loopback or (mapped or ip).is_unspecified
