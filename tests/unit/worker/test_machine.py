"""What a worker says about its machine, with a metadata service on the loopback interface."""

from __future__ import annotations

import ipaddress
import json
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from shardmill.worker.machine import describe_instance, own_address

DOCUMENT = {
    "instanceId": "i-0abc",
    "instanceType": "c7g.large",
    "region": "eu-west-1",
    "availabilityZone": "eu-west-1b",
}


class Metadata:
    """IMDSv2: a token by PUT, and the identity document for those who have it."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str]] = []
        self.document = json.dumps(DOCUMENT).encode()
        self.delay = 0.0
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                ttl = self.headers["X-aws-ec2-metadata-token-ttl-seconds"]
                self.answer(200 if ttl else 400, b"t0ken")

            def do_GET(self) -> None:
                allowed = self.headers["X-aws-ec2-metadata-token"] == "t0ken"
                self.answer(200 if allowed else 401, service.document)

            def answer(self, status: int, body: bytes) -> None:
                time.sleep(service.delay)
                service.requests.append((self.command, self.path))
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.environ = {"AWS_EC2_METADATA_SERVICE_ENDPOINT": f"http://127.0.0.1:{self.server.server_port}"}


@pytest.fixture
def metadata() -> Iterator[Metadata]:
    service = Metadata()
    thread = Thread(target=service.server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield service
    service.server.shutdown()
    thread.join()
    service.server.server_close()


def machine(
    folder: Path, path: str = "devices/virtual/dmi/id/sys_vendor", text: str = "Amazon EC2\n"
) -> Path:
    file = folder / path
    file.parent.mkdir(parents=True)
    file.write_text(text)
    return folder


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("devices/virtual/dmi/id/sys_vendor", "Amazon EC2\n"),
        ("devices/virtual/dmi/id/product_uuid", "EC2E1916-9099-7CAF-FD21-012345ABCDEF\n"),
        ("hypervisor/uuid", "ec2e1916-9099-7caf-fd21-012345abcdef\n"),
    ],
)
def test_an_ec2_instance_is_described_by_its_metadata(
    tmp_path: Path, metadata: Metadata, path: str, text: str
) -> None:
    found = describe_instance(machine(tmp_path, path, text), metadata.environ)
    assert found == {"instance_id": "i-0abc", "instance_type": "c7g.large", "domain": "eu-west-1"}
    assert [method for method, _ in metadata.requests] == ["PUT", "GET"]


@pytest.mark.parametrize("vendor", ["QEMU", "Dell Inc.", "", "Not Amazon EC2"])
def test_no_other_machine_asks_for_metadata(tmp_path: Path, metadata: Metadata, vendor: str) -> None:
    assert describe_instance(machine(tmp_path, text=vendor), metadata.environ) == {}
    assert describe_instance(tmp_path / "nothing", metadata.environ) == {}
    assert metadata.requests == []


def test_metadata_can_be_disabled_as_in_the_aws_sdks(tmp_path: Path, metadata: Metadata) -> None:
    disabled = {**metadata.environ, "AWS_EC2_METADATA_DISABLED": "TRUE"}
    assert describe_instance(machine(tmp_path), disabled) == {}
    assert metadata.requests == []


def test_an_instance_without_metadata_starts_soon(tmp_path: Path, metadata: Metadata) -> None:
    metadata.delay = 3
    began = time.monotonic()
    assert describe_instance(machine(tmp_path), metadata.environ) == {}
    assert time.monotonic() - began < 2


@pytest.mark.parametrize("document", [b"", b"<html>", b"[]", b'{"instanceId": 3}'])
def test_a_bad_document_is_ignored(tmp_path: Path, metadata: Metadata, document: bytes) -> None:
    metadata.document = document
    assert describe_instance(machine(tmp_path), metadata.environ) == {}


def test_own_address_returns_an_ip_address() -> None:
    address = own_address()
    assert address is None or ipaddress.ip_address(address)
