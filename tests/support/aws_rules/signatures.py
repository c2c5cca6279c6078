"""Check the signatures of requests as AWS does (Signature Version 4), which no emulator does.

Written from AWS's description: botocore would accept its own mistakes.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl, quote, unquote, urlsplit

ALGORITHM = "AWS4-HMAC-SHA256"
MAX_EXPIRES = 604_800
CLOCK_SKEW = timedelta(minutes=5)
_TIME = "%Y%m%dT%H%M%SZ"
_CREDENTIAL = re.compile(r"Credential=([^,]+), ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$")


def fault(
    method: str,
    url: str,
    secret: str,
    now: datetime,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
) -> str:
    """The code with which AWS rejects a request; empty if its signature is valid now."""
    parts = urlsplit(url)
    given = {name.lower(): value for name, value in (headers or {}).items()} | {"host": parts.netloc}
    query = parse_qsl(parts.query, keep_blank_values=True)
    values = dict(query)
    if "X-Amz-Signature" in values:
        credential, names = values.get("X-Amz-Credential", ""), values.get("X-Amz-SignedHeaders", "")
        signature, time = values["X-Amz-Signature"], values.get("X-Amz-Date", "")
        query = [pair for pair in query if pair[0] != "X-Amz-Signature"]
        seconds = int(values.get("X-Amz-Expires", "0"))
        if not 1 <= seconds <= MAX_EXPIRES or values.get("X-Amz-Algorithm") != ALGORITHM:
            return "AuthorizationQueryParametersError"
        valid = timedelta(seconds=seconds)
    else:
        found = _CREDENTIAL.search(given.get("authorization", ""))
        if not found or not given["authorization"].startswith(ALGORITHM):
            return "MissingAuthenticationToken"
        credential, names, signature = found.groups()
        time, valid = given.get("x-amz-date", ""), CLOCK_SKEW
    _, date, region, service, _ = credential.split("/")
    signed = names.split(";")
    unsigned = [name for name in given if name.startswith("x-amz-") and name not in signed]
    if "host" not in signed or (unsigned and "X-Amz-Signature" not in values):
        return "SignatureDoesNotMatch"
    payload = "UNSIGNED-PAYLOAD" if service == "s3" else hashlib.sha256(body).hexdigest()
    request = "\n".join(
        [
            method,
            _path(parts.path, service),
            "&".join(f"{_encoded(name)}={_encoded(value)}" for name, value in sorted(query)),
            *(f"{name}:{' '.join(given.get(name, '').split())}" for name in signed),
            "",
            names,
            payload,
        ]
    )
    scope = f"{date}/{region}/{service}/aws4_request"
    text = "\n".join([ALGORITHM, time, scope, hashlib.sha256(request.encode()).hexdigest()])
    if not hmac.compare_digest(signature, _signature(secret, scope, text)):
        return "SignatureDoesNotMatch"
    begin = datetime.strptime(time, _TIME).replace(tzinfo=UTC)
    return "" if begin - CLOCK_SKEW <= now <= begin + valid else "RequestExpired"


def _signature(secret: str, scope: str, text: str) -> str:
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.new(key, text.encode(), "sha256").hexdigest()


def _encoded(text: str, safe: str = "") -> str:
    return quote(text, safe=f"-_.~{safe}")


def _path(path: str, service: str) -> str:
    """S3 encodes a path once, other services encode what was sent once more."""
    return _encoded(unquote(path) if service == "s3" else path, "/") or "/"
