"""Send a notification to a webhook: one POST, without redirects, to public addresses only."""

from __future__ import annotations

import http.client
import ipaddress
from collections.abc import Mapping
from contextlib import closing
from urllib.parse import urlsplit

from shardmill.engine.notify import NotDelivered
from shardmill.worker.guarded_http import (
    Address,
    Request,
    RequestFailed,
    connection_to,
    forms_of,
    not_link_local,
    send,
)

TIMEOUT_SECONDS = 10.0
_UNICAST = ipaddress.ip_network("2000::/3")


def post(url: str, headers: Mapping[str, str], body: bytes, *, loopback: bool) -> None:
    """Raises NotDelivered unless the receiver returns 2xx.

    `loopback`: it may be on this machine or its network.
    """
    host = urlsplit(url).hostname
    request = Request("POST", url, headers, body)
    check = not_link_local if loopback else _only_public
    try:
        with closing(connection_to(request, TIMEOUT_SECONDS, check)) as connection:
            response = send(connection, request)
    except TimeoutError as error:
        raise NotDelivered(f"{host} did not respond within {TIMEOUT_SECONDS:g} s") from error
    except RequestFailed as error:
        raise NotDelivered(str(error)) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise NotDelivered(f"cannot send to {host}: {type(error).__name__}: {error}") from error
    if not 200 <= response.status < 300:
        raise NotDelivered(f"{host} returned {response.status} {response.reason}".rstrip())


def is_public(address: str) -> bool:
    """Whether an IP address is public. For an IPv6 address that embeds an IPv4 address, the latter
    decides."""
    first, *embedded = forms_of(address)
    return all(map(_is_global, embedded or [first]))


def _is_global(ip: Address) -> bool:
    return ip.is_global and not ip.is_multicast and (ip.version == 4 or ip in _UNICAST)


def _only_public(address: str) -> str:
    reason = "it is not a public address, which only the stack parameter NotifyLoopback allows"
    return "" if is_public(address) else reason
