"""The health check, the OpenAPI document and the start page."""

from __future__ import annotations

from pathlib import Path

from aws_lambda_powertools.event_handler import Response

OPENAPI = Path(__file__).with_name("openapi.json")
PAGE = Path(__file__).with_name("index.html")


def health() -> dict[str, str]:
    """Check that the API answers; needs no token."""
    return {"status": "ok"}


def openapi() -> Response[str]:
    return Response(status_code=200, content_type="application/json", body=OPENAPI.read_text())


def page() -> Response[str]:
    return Response(status_code=200, content_type="text/html; charset=utf-8", body=PAGE.read_text())
