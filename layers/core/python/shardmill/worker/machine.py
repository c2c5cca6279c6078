"""The description of a worker's machine: its address, and on EC2 the instance, its type and its region.

The instance metadata service (IMDSv2) is asked only if the machine says that it is an EC2 instance, so that a
start elsewhere never waits for an address that does not answer.
"""

from __future__ import annotations

import json
import logging
import os
import socket
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import urlsplit

log = logging.getLogger("shardmill.worker")

_METADATA = "http://169.254.169.254"
_TIMEOUT = 0.5
_SESSION_SECONDS = "60"
_DOCUMENT = "/latest/dynamic/instance-identity/document"
_MARKS = (
    ("devices/virtual/dmi/id/sys_vendor", "amazon ec2"),  # Nitro
    ("devices/virtual/dmi/id/product_uuid", "ec2"),  # Xen; only for root
    ("hypervisor/uuid", "ec2"),
)
_UNREACHABLE = ("192.0.2.1", 9)  # an address without a host; connecting a UDP socket sends nothing


def own_address() -> str | None:
    """The address of the interface that this machine uses to reach others; None without a network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_UNREACHABLE)
            return str(probe.getsockname()[0])
        except OSError:
            return None


def describe_instance(system: Path = Path("/sys"), environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The fields of a registration that are known on an EC2 instance; empty elsewhere."""
    disabled = environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true"
    if disabled or not any(_begins(system / path, mark) for path, mark in _MARKS):
        return {}
    try:
        document = _identity(environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or _METADATA)
    except (OSError, HTTPException, ValueError) as error:
        log.info(
            "no instance metadata; the worker registers without instance ID and type",
            extra={"action": "instance-unknown", "error": str(error)},
        )
        return {}
    named = {"instance_id": "instanceId", "instance_type": "instanceType", "domain": "region"}
    fields = {name: document.get(key) for name, key in named.items()}
    return {name: value[:256] for name, value in fields.items() if isinstance(value, str)}


def _begins(path: Path, mark: str) -> bool:
    try:
        return path.read_text(errors="replace").strip().lower().startswith(mark)
    except OSError:
        return False


def _identity(endpoint: str) -> dict[str, object]:
    address = urlsplit(endpoint)
    connection = HTTPConnection(address.hostname or "", address.port, timeout=_TIMEOUT)
    try:
        ttl = {"X-aws-ec2-metadata-token-ttl-seconds": _SESSION_SECONDS}
        token = _request(connection, "PUT", "/latest/api/token", ttl)
        text = _request(connection, "GET", _DOCUMENT, {"X-aws-ec2-metadata-token": token.decode("ascii")})
    finally:
        connection.close()
    document = json.loads(text)
    if not isinstance(document, dict):
        raise ValueError("the instance identity document is not an object")  # noqa: TRY004 a bad answer
    return document


def _request(connection: HTTPConnection, method: str, path: str, headers: Mapping[str, str]) -> bytes:
    connection.request(method, path, headers=dict(headers))
    with connection.getresponse() as response:
        body = response.read(65_536)
        if response.status != 200:
            raise ValueError(f"{method} {path}: HTTP {response.status}")
    return body
