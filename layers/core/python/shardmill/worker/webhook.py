"""Posts to a webhook: once, without redirects, and never where a machine keeps what it knows of itself."""

from __future__ import annotations

import http.client
import ipaddress
from collections.abc import Mapping
from contextlib import closing
from urllib.parse import urlsplit

from shardmill.engine.notify import NotDelivered
from shardmill.worker.task.http_task import Ask, Stopped, connection_to, send

TIMEOUT_SECONDS = 10.0


def post(url: str, headers: Mapping[str, str], body: bytes, *, loopback: bool) -> None:
    """Raises NotDelivered unless the receiver says that it has it; `loopback`: it may be this machine."""
    host = urlsplit(url).hostname
    try:
        with closing(connection_to(Ask("POST", url, headers, body), TIMEOUT_SECONDS)) as connection:
            connection.connect()
            if not loopback and _is_loopback(connection.sock.getpeername()[0]):
                raise NotDelivered(f"{host} is this machine itself: the stack's NotifyLoopback forbids it")
            answer = send(connection, Ask("POST", url, headers, body))
    except TimeoutError as error:
        raise NotDelivered(f"{host} did not answer within {TIMEOUT_SECONDS:g} s") from error
    except (Stopped, OSError, http.client.HTTPException, ValueError) as error:
        raise NotDelivered(f"{host} cannot be asked: {type(error).__name__}: {error}") from error
    if not 200 <= answer.status < 300:
        raise NotDelivered(f"{host} answered {answer.status} {answer.reason}".rstrip())


def _is_loopback(address: str) -> bool:
    ip = ipaddress.ip_address(address.partition("%")[0])
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return (mapped or ip).is_loopback or (mapped or ip).is_unspecified
