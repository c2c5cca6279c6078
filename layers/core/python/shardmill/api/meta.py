"""The health check, the OpenAPI document, and the dashboard with its files."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

from aws_lambda_powertools.event_handler import Response

from shardmill.api.responses import current_event
from shardmill.engine.errors import NoSuchPath
from shardmill.web import assets

VERSION = "0.1.0"
"""The version in pyproject.toml: the package is not installed in the Lambda layer, so it has no metadata."""

OPENAPI = Path(__file__).with_name("openapi.json")


def health() -> dict[str, str]:
    """Check that the API answers; needs no token."""
    return {"status": "ok", "version": VERSION}


def openapi() -> Response[str]:
    return Response(status_code=200, content_type="application/json", body=OPENAPI.read_text())


def page() -> Response[str]:
    """The dashboard; it may send requests to the API and, with the code of a sign-in, to the issuer only."""
    from shardmill.api.access.sign_in import token_origin

    return _file("/", token_origin())


def page_file(digest: str, folder: str, name: str) -> Response[str]:
    return _file(f"/assets/{digest}/{folder}/{name}")


def _file(path: str, origin: str = "") -> Response[str]:
    headers = {name.lower(): value for name, value in current_event().headers.items()}
    found = assets.serve(path, headers, origin)
    if found is None:
        raise NoSuchPath(f"the dashboard has no file {path}; reload the page to get its present version")
    # Powertools would read a body of bytes as UTF-8, but a compressed body is not UTF-8.
    body = b64encode(found.body).decode()
    answer = Response(found.status, found.content_type, body, dict(found.headers))
    answer.base64_encoded = True
    return answer
