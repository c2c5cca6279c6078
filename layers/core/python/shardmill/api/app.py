"""The HTTP API: every route but the lease.

A function that starts cold imports only the routes of the area that its first request asks for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from typing import Any

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver
from aws_lambda_powertools.utilities.typing import LambdaContext

from shardmill.api.resolver import make_app, resolve_with

# The first word after /v1/ (with a colon: what is done to one of it), and the module that has its routes.
AREAS = {
    "definitions": "definitions",
    "jobs": "jobs",
    "jobs:": "control",
    "schedules": "schedules",
    "groups": "workers",
    "workers": "workers",
    "work": "workers",
    "uploads": "uploads",
}
_META = "meta"
_AREA = re.compile(r"/v1/(\w+)(?:/.*(:))?")


def app_of(modules: Iterable[str]) -> APIGatewayHttpResolver:
    app = make_app()
    for module in modules:
        app.include_router(import_module(f"shardmill.api.{module}").router)
    return app


@cache
def _app(module: str) -> APIGatewayHttpResolver:
    return app_of([module])


def whole_app() -> APIGatewayHttpResolver:
    """All areas together, as the OpenAPI document describes them."""
    return app_of(dict.fromkeys([*AREAS.values(), _META]))


def resolve(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Answer one event of the HTTP API."""
    return resolve_with(_app(_module(event["rawPath"])), event, context)


def _module(path: str) -> str:
    match = _AREA.match(path)
    if not match:
        return _META
    area, action = match.groups()
    return (action and AREAS.get(f"{area}:")) or AREAS.get(area, _META)
