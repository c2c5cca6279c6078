"""What the API says of itself: its health, its description, its page."""

from __future__ import annotations

from pathlib import Path

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter

from shardmill.api.routes import OPENAPI

PAGE = Path(__file__).with_name("index.html")

router = APIGatewayHttpRouter()


@router.get("/v1/health", tags=["meta"])
def health() -> dict[str, str]:
    """Whether the API answers; needs no token."""
    return {"status": "ok"}


@router.get("/openapi.json", include_in_schema=False)
def openapi() -> Response[str]:
    return Response(status_code=200, content_type="application/json", body=OPENAPI.read_text())


@router.get("/", include_in_schema=False)
def page() -> Response[str]:
    return Response(status_code=200, content_type="text/html; charset=utf-8", body=PAGE.read_text())
