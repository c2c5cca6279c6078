"""Presigned addresses: each works for its time, its object, its method and its content, and nothing else.

The addresses are those in the answers of a whole run, checked as AWS checks signatures.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

import pytest

from shardmill.model.transfers import PART_BYTES
from support.aws_rules.signatures import fault
from support.moto.cloud import Cloud
from support.moto.moto_cloud import moto_cloud
from support.moto.presigned_sqs import SIGNING_KEY
from support.scenarios.file_worker import FileWorker, md5s, place
from support.scenarios.job_runner import JobRunner
from support.scenarios.worker_api import register

SECRETS = {"FOOBARKEY": "FOOBARSECRET", SIGNING_KEY[0]: SIGNING_KEY[1]}  # the first is what moto sets
DATA = b"hello"
MOST = 900
KINDS = {"upload", "input", "output", "part", "log", "listed", "queue"}


@dataclass(frozen=True)
class Address:
    kind: str
    method: str
    url: str
    headers: dict[str, str] = field(default_factory=dict)

    def fault(self, after: float = 0, **changes: Any) -> str:
        """Why AWS rejects a request to the address, some seconds after it was made; empty if it does not."""
        method, url = changes.get("method", self.method), changes.get("url", self.url)
        signer = parse_qs(urlsplit(self.url).query)["X-Amz-Credential"][0].partition("/")[0]
        now = datetime.now(UTC) + timedelta(seconds=after)
        return fault(method, url, SECRETS[signer], now, changes.get("headers", self.headers))


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    with moto_cloud() as started:
        yield started


@pytest.fixture(scope="module")
def addresses(cloud: Cloud) -> list[Address]:
    """The addresses that a user and a worker get for one Job with a submitted file, outputs and logs."""
    runner = JobRunner(cloud)
    files = FileWorker(runner)
    found: list[Address] = []
    digest = hashlib.sha256(DATA)
    made = cloud.http("POST", "/v1/uploads", {"size": len(DATA), "sha256": digest.hexdigest()}).json
    checksum = base64.b64encode(digest.digest()).decode()
    found.append(Address("upload", "PUT", made["url"], {"x-amz-checksum-sha256": checksum}))
    files.s3.put_object(**place(made["url"]), Body=DATA)
    outputs = [{"name": "out a+é.txt"}, {"name": "big"}]
    runner.define({"stepName": "a", "content": "x", "inputs": [{"name": "in.txt"}], "outputs": outputs})
    given = [{"name": "in.txt", "upload": made["upload"], "size": len(DATA)}]
    runner.submit(files=given)
    [lease] = runner.take(1)
    [fetch] = files.ask(lease, prepare=True)["prepared"]["files"]
    found.append(Address("input", "GET", fetch["url"]))
    wanted = [
        {"name": outputs[0]["name"], "size": len(DATA), "md5s": md5s(DATA)},
        {"name": "big", "size": PART_BYTES + 1, "md5s": md5s(DATA) * 2},
    ]
    for each in files.ask(lease, store=wanted)["stored"]:
        kind = "output" if len(each["urls"]) == 1 else "part"
        for url, headers in zip(each["urls"], each["headers"], strict=True):
            found.append(Address(kind, "PUT", url, headers))
    for each in files.ask(lease, stream="stdout", chunks=2)["items"]:
        found.append(Address("log", "PUT", each["url"]))
    found += [Address("listed", "GET", each["url"]) for each in files.listed() if each.get("url")]
    lanes = register(runner)["lanes"]["items"]
    found += [Address("queue", "GET", url) for lane in lanes for url in lane["urls"].values()]
    assert {each.kind for each in found} == KINDS
    return found


def of_kind(addresses: list[Address], kind: str) -> list[Address]:
    return [each for each in addresses if each.kind == kind]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_an_address_works_for_fifteen_minutes(addresses: list[Address], kind: str) -> None:
    for address in of_kind(addresses, kind):
        assert address.fault() == ""
        assert int(parse_qs(urlsplit(address.url).query)["X-Amz-Expires"][0]) <= MOST
        assert address.fault(after=MOST + 1) == "RequestExpired"
        for seconds in ("901", "86400"):
            longer = address.url.replace("X-Amz-Expires=900", f"X-Amz-Expires={seconds}")
            assert longer != address.url
            assert address.fault(after=MOST + 1, url=longer) == "SignatureDoesNotMatch"


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_an_address_works_for_one_object_and_method(addresses: list[Address], kind: str) -> None:
    for address in of_kind(addresses, kind):
        for other in addresses:
            if urlsplit(other.url).path != urlsplit(address.url).path:
                moved = urlsplit(address.url)._replace(path=urlsplit(other.url).path).geturl()
                assert address.fault(url=moved) == "SignatureDoesNotMatch"
        for method in {"GET", "PUT", "DELETE", "POST", "HEAD"} - {address.method}:
            assert address.fault(method=method) == "SignatureDoesNotMatch"
        parts = urlsplit(address.url)
        elsewhere = parts._replace(netloc=f"other-{parts.netloc}").geturl()
        assert address.fault(url=elsewhere) == "SignatureDoesNotMatch"
        for more in ("versionId=1", "acl", "response-content-type=text%2Fhtml", "partNumber=9"):
            assert address.fault(url=f"{address.url}&{more}") == "SignatureDoesNotMatch"


@pytest.mark.parametrize("kind", ["upload", "output", "part"])
def test_an_upload_must_match_its_announcement(addresses: list[Address], kind: str) -> None:
    for address in of_kind(addresses, kind):
        assert address.headers
        other = dict.fromkeys(address.headers, "AAAA")
        assert address.fault(headers=other) == "SignatureDoesNotMatch"
        assert address.fault(headers={}) == "SignatureDoesNotMatch"


def test_the_rule_sees_names_as_s3_does(addresses: list[Address]) -> None:
    [output] = of_kind(addresses, "output")
    assert unquote(urlsplit(output.url).path).endswith("/out a+é.txt")
    other = output.url.replace(quote("out a+é.txt"), quote("out a é.txt"))
    assert output.fault(url=other) == "SignatureDoesNotMatch"
