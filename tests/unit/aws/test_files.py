"""Presigned URLs: on the regional host, valid for fifteen minutes, for one operation."""

from __future__ import annotations

from urllib.parse import parse_qs, unquote, urlsplit

import boto3
import pytest

from shardmill.aws import clients
from shardmill.aws.files import Files, Place


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> Files:
    session = boto3.Session(aws_access_key_id="a", aws_secret_access_key="b", region_name="eu-central-1")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    monkeypatch.setattr(clients, "_session", lambda: session)
    return Files(clients.s3.__wrapped__(), "mill")


def test_urls_have_the_regional_host_and_are_valid_for_fifteen_minutes(files: Files) -> None:
    names = ["a b+c#é?.txt", "100%", "x/../y"]
    for url, bucket, key in [
        *((files.put_url(f"files/{name}"), "mill", f"files/{name}") for name in names),
        (files.part_url("big", "u", 3), "mill", "big"),
        (files.get_url(Place("data", "in.txt")), "data", "in.txt"),
    ]:
        parts = urlsplit(url)
        assert parts.netloc == f"{bucket}.s3.eu-central-1.amazonaws.com"
        assert unquote(parts.path) == f"/{key}"
        assert parse_qs(parts.query)["X-Amz-Expires"] == ["900"]


def test_headers_that_s3_verifies_are_signed(files: Files) -> None:
    signed = parse_qs(urlsplit(files.put_url("k", ContentMD5="abc==")).query)["X-Amz-SignedHeaders"]
    assert signed == ["content-md5;host"]
    signed = parse_qs(urlsplit(files.put_url("k", ChecksumSHA256="abc=")).query)["X-Amz-SignedHeaders"]
    assert signed == ["host;x-amz-checksum-sha256"]
