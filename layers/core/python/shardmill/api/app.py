"""The HTTP API: every route but the lease."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.utilities.typing import LambdaContext

from shardmill.api import definitions, jobs, workers
from shardmill.api.paths import OPENAPI
from shardmill.api.resolver import make_app, resolve_with

PAGE = Path(__file__).with_name("index.html")

app = make_app()
for routes in (definitions, jobs, workers):
    app.include_router(routes.router)


@app.get("/v1/health", tags=["meta"])
def health() -> dict[str, str]:
    """Whether the API answers; needs no token."""
    return {"status": "ok"}


@app.get("/openapi.json", include_in_schema=False)
def openapi() -> Response[str]:
    return Response(status_code=200, content_type="application/json", body=OPENAPI.read_text())


@app.get("/", include_in_schema=False)
def page() -> Response[str]:
    return Response(status_code=200, content_type="text/html; charset=utf-8", body=PAGE.read_text())


def resolve(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Answer one event of the HTTP API."""
    return resolve_with(app, event, context)
