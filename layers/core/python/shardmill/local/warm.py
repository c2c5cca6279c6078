"""Starts the Lambda processes of the first requests while the rest is still being deployed.

Each is asked something that it answers like anything else: the API for its health, the authorizer about a
request without a token.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

from botocore.exceptions import ClientError

PATIENCE_SECONDS = 10.0
_HTTP = {"method": "GET", "path": "/v1/health", "protocol": "HTTP/1.1", "sourceIp": "127.0.0.1"}
_HEALTH = {
    "version": "2.0",
    "routeKey": "GET /v1/health",
    "rawPath": "/v1/health",
    "rawQueryString": "",
    "headers": {"accept": "application/json"},
    "requestContext": {"http": _HTTP, "routeKey": "GET /v1/health", "stage": "$default", "requestId": "warm"},
    "isBase64Encoded": False,
}
QUESTIONS = {"api": _HEALTH, "authorizer": {"version": "2.0", "type": "REQUEST", "headers": {}}}


@contextlib.contextmanager
def warming(client: Any, stack: str) -> Iterator[None]:
    """Meanwhile, ask each function as soon as it exists; at the end, wait for the answers."""
    threads = [
        threading.Thread(target=_ask, args=(client, f"{stack}-{name}", question), daemon=True)
        for name, question in QUESTIONS.items()
    ]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join(PATIENCE_SECONDS)


def _ask(client: Any, function: str, question: dict[str, Any]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        try:
            client.invoke(FunctionName=function, Payload=json.dumps(question).encode())
        except ClientError as error:
            if error.response["Error"]["Code"] != "ResourceNotFoundException":
                raise
            time.sleep(0.05)
        else:
            return
