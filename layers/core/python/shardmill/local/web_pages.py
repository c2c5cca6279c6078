"""Detect requests from pages of other web sites: the emulator checks no signatures and answers anyone.

A browser names the site of a page in `Origin` or `Sec-Fetch-Site`, and the host that the page believes to
talk to in `Host`. Programs send no such names, or the name of this machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import unquote_to_bytes, urlsplit

LOOPBACK_NAMES = ("127.0.0.1", "localhost")
_LOCAL_ENDINGS = (".localhost", ".docker.internal")  # these names cannot be registered by others
_OWN_SITES = ("same-origin", "none")


def is_foreign(method: str, query: bytes, headers: Mapping[str, str]) -> bool:
    """Whether a page of another site sent a request, or reached this machine by a host name that the site
    controls."""
    host, port = _host_and_port(f"//{headers.get('host', '')}")
    if not _is_local(host):
        return True
    site = headers.get("sec-fetch-site")
    if site in _OWN_SITES:
        return False  # also behind a tunnel, where the browser knows this address by another name
    if origin := headers.get("origin"):
        name, origin_port = _host_and_port(origin)
        return origin_port != port or name not in (host, *LOOPBACK_NAMES)
    if site is None:
        return False
    # A link to the page or to a file. The answer is shown, but the other site cannot read it.
    return method not in ("GET", "HEAD") or b"action=" in unquote_to_bytes(query).lower()


def _host_and_port(url: str) -> tuple[str, int | None]:
    try:
        parts = urlsplit(url)
        return parts.hostname or "", parts.port
    except ValueError:
        return ".", None  # no site has this name


def _is_local(host: str) -> bool:
    """Whether no other site can choose the address of a host: an IP address, or a name of this machine."""
    if not host or "." not in host or host.endswith(_LOCAL_ENDINGS):
        return True
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
